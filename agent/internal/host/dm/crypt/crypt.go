// Package crypt finds and closes the mappings of encrypted OSDs, and knows no other ones. It opens none: cryptsetup does that, of the container that has it.
package crypt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/osd"
)

// Kinds of failures, for errors.Is.
var (
	// ErrInUse means that somebody has the mapping open.
	ErrInUse = errors.New("the encrypted OSD is open")
	// ErrOther means that a mapping of the name is not that of the OSD on the disk.
	ErrOther = errors.New("another mapping has the name")
	// ErrNotFound means that there is no such mapping.
	ErrNotFound = errors.New("the encrypted OSD has no mapping")
)

const (
	// dmsetup is where distributions install it, with LVM.
	dmsetup = "/usr/sbin/dmsetup"
	timeout = 30 * time.Second
	// patience is how long somebody may have a mapping open who only looks at it, as udev does when it appears and after each writer; pause is that between two looks.
	patience, pause = 10 * time.Second, 100 * time.Millisecond
)

// Config says how to run dmsetup. An empty path means the host's own.
type Config struct {
	Runner run.Runner
	Dev    string
	// Patience is how long somebody may have a mapping open who only looks at it; zero means ten seconds.
	Patience time.Duration
}

// Mappings are those of the encrypted OSDs on this node. Calls on one OSD have to be serialised by the caller.
type Mappings struct {
	runner   run.Runner
	dev      string
	patience time.Duration
}

// New makes Mappings.
func New(cfg Config) *Mappings {
	return &Mappings{runner: cfg.Runner, dev: cmp.Or(cfg.Dev, "/dev"), patience: cmp.Or(cfg.Patience, patience)}
}

// Mapping is an open OSD.
type Mapping struct {
	// Path of its node; the kernel names it.
	Path string
	// Number is its device number.
	Number uint64
}

// state is what dmsetup says of a mapping.
type state struct {
	number uint64
	live   bool
	open   int
}

// Find returns the mapping of the OSD on the disk with a device number.
func (m *Mappings) Find(ctx context.Context, uuid string, disk uint64) (Mapping, error) {
	s, err := m.look(ctx, uuid)
	if err != nil {
		return Mapping{}, err
	}
	if s == nil || !s.live {
		return Mapping{}, fmt.Errorf("OSD %s: %w", uuid, ErrNotFound)
	}
	below, err := m.below(ctx, uuid)
	if err != nil {
		return Mapping{}, err
	}
	if below != number(disk) {
		return Mapping{}, fmt.Errorf("mapping of OSD %s: %w: it is on device %s, not %s", uuid, ErrOther, below, number(disk))
	}
	return Mapping{Path: filepath.Join(m.dev, fmt.Sprintf("dm-%d", unix.Minor(s.number))), Number: s.number}, nil
}

// Close takes the mapping of the OSD on the disk with a device number away. Nothing happens when there is none. One that somebody has open stays. One that an opening which
// was cut off has left has no table, and lies on no disk. One on another number goes too: the disk was away, and came back with another number. Nothing is in it that is not on a disk.
func (m *Mappings) Close(ctx context.Context, uuid string, disk uint64) error {
	for begin := time.Now(); ; time.Sleep(pause) {
		err := m.close(ctx, uuid, disk)
		if !errors.Is(err, ErrInUse) || time.Since(begin) > m.patience || ctx.Err() != nil {
			return err
		}
	}
}

func (m *Mappings) close(ctx context.Context, uuid string, disk uint64) error {
	s, err := m.look(ctx, uuid)
	if err != nil || s == nil {
		return err
	}
	below := number(disk)
	if s.live {
		if below, err = m.below(ctx, uuid); err != nil {
			return err
		}
	}
	switch {
	case s.open > 0 && below != number(disk):
		return fmt.Errorf("OSD %s: %w, on device %s, which its disk was before it came back as %s: end what has it open", uuid, ErrInUse, below, number(disk))
	case s.open > 0:
		return fmt.Errorf("OSD %s: %w", uuid, ErrInUse)
	}
	if _, err := m.run(ctx, "remove", osd.MappingName(uuid)); err != nil {
		return fmt.Errorf("close OSD %s: %w", uuid, err)
	}
	return nil
}

// look asks for the mapping; nil when there is none. One of the name that has another UUID is an error.
func (m *Mappings) look(ctx context.Context, uuid string) (*state, error) {
	if !osd.ValidUUID(uuid) {
		return nil, fmt.Errorf("mapping of OSD %q: no UUID", uuid)
	}
	// All are asked for: dmsetup says that a single one is not there in the words for any failure.
	res, err := m.run(ctx, "info", "--columns", "--noheadings", "--separator", " ", "--options", "name,uuid,tables_loaded,major,minor,open")
	if err != nil {
		return nil, fmt.Errorf("mapping of OSD %s: %w", uuid, err)
	}
	for line := range strings.Lines(string(res.Stdout)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if fields[0] != osd.MappingName(uuid) {
			continue
		}
		if len(fields) != 6 || fields[1] != osd.MappingUUID(uuid) {
			return nil, fmt.Errorf("mapping of OSD %s: %w: dmsetup says %q", uuid, ErrOther, fields)
		}
		major, errMajor := strconv.ParseUint(fields[3], 10, 32)
		minor, errMinor := strconv.ParseUint(fields[4], 10, 32)
		open, errOpen := strconv.Atoi(fields[5])
		if err := errors.Join(errMajor, errMinor, errOpen); err != nil {
			return nil, fmt.Errorf("mapping of OSD %s: %w", uuid, err)
		}
		return &state{number: unix.Mkdev(uint32(major), uint32(minor)), live: fields[2] == "Live" || fields[2] == "Both", open: open}, nil
	}
	return nil, nil
}

// below returns the number of the device that the live mapping of the OSD is on, as text. It returns an error unless that is one of dm-crypt, on one device.
func (m *Mappings) below(ctx context.Context, uuid string) (string, error) {
	// Without a word for it dmsetup shows no key.
	res, err := m.run(ctx, "table", osd.MappingName(uuid))
	if err != nil {
		return "", fmt.Errorf("mapping of OSD %s: %w", uuid, err)
	}
	words := strings.Fields(string(res.Stdout))
	if strings.Count(strings.TrimSpace(string(res.Stdout)), "\n") > 0 || len(words) < 8 || words[2] != "crypt" {
		return "", fmt.Errorf("mapping of OSD %s: %w: it is not one of dm-crypt on a device", uuid, ErrOther)
	}
	return words[6], nil
}

// number is a device number as dmsetup writes it.
func number(disk uint64) string { return fmt.Sprintf("%d:%d", unix.Major(disk), unix.Minor(disk)) }

func (m *Mappings) run(ctx context.Context, args ...string) (run.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := m.runner.Run(ctx, run.Command{Path: dmsetup, Args: args, Env: []string{"DM_DISABLE_UDEV=1"}})
	var exit *run.Error
	if errors.As(err, &exit) && strings.Contains(exit.Stderr, "Device or resource busy") {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return res, err
}
