// Package node takes the measurements of a benchmark inside a node of the lab, as root: it starts the servers that are compared, works on
// spare disks with each of them in turn, and reports times and counts. It computes nothing from them.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"quarry.storage/quarry/test/bench/internal/measure"
	"quarry.storage/quarry/test/bench/internal/san"
)

// Config says what to measure with. Everything on the disks is lost.
type Config struct {
	// Disks are spare ones, as /dev/NAME.
	Disks []string
	// Target is for measurements on a shared LUN, which need no disks.
	Target san.Target
	// Agent and LVMd are the binaries of the servers; Self is this program.
	Agent, LVMd, Self string
	// Dir holds configurations and logs; it is made anew. It should be on the filesystem that /etc/lvm is on, for LVM's archives.
	Dir string
	// Budget is how long to go on with rounds; Rounds bounds their number.
	Budget time.Duration
	Rounds int
	// Log tells a person what goes on.
	Log io.Writer
}

// edge is what is zeroed at both ends of a disk.
const edge = 4 << 20

// firstRound is not kept: in it programs and libraries are read from disk.
const firstRound = -1

// New checks the configuration and makes its directory.
func New(cfg Config) (*Bench, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("measuring needs root")
	}
	if len(cfg.Disks) == 0 && cfg.Target.IQN == "" {
		return nil, errors.New("measuring needs spare disks, or a target")
	}
	cfg.Rounds = cmp.Or(cfg.Rounds, 1000)
	if err := errors.Join(os.RemoveAll(cfg.Dir), os.MkdirAll(cfg.Dir, 0o700)); err != nil {
		return nil, err
	}
	return &Bench{cfg: cfg}, nil
}

// Bench takes measurements.
type Bench struct {
	cfg    Config
	report measure.Report
}

// turn is one contender's part in a round.
type turn struct {
	measure.Contender
	run func(ctx context.Context, round int) error
}

// rounds lets the contenders take turns, in another order each time, until the time is used up.
func (b *Bench) rounds(ctx context.Context, turns []turn) error {
	until := time.Now().Add(b.cfg.Budget)
	for round := firstRound; round < b.cfg.Rounds && (round < 1 || time.Now().Before(until)); round++ {
		rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, t := range turns {
			if err := t.run(ctx, round); err != nil {
				return fmt.Errorf("round %d of %s (%s): %w", round, t.Who, t.Config, err)
			}
		}
		fmt.Fprintf(b.cfg.Log, "round %d done\n", round)
	}
	return nil
}

// time takes the time of some work and keeps it. Several like it in a row are times of one.
func (b *Bench) time(c measure.Contender, operation string, round, times int, work func() error) error {
	began := time.Now()
	err := work()
	took := time.Since(began)
	if err == nil {
		b.keep(c, operation, round, took/time.Duration(times))
	}
	return err
}

// keep keeps the time of one operation.
func (b *Bench) keep(c measure.Contender, operation string, round int, took time.Duration) {
	if round == firstRound {
		return
	}
	b.report.Samples = append(b.report.Samples, measure.Sample{
		Contender: c, Operation: operation, Round: round, Milliseconds: took.Seconds() * 1000,
	})
}

// clean zeroes both ends of the disks, so that nothing is recognised on them.
func (b *Bench) clean(disks []string) error {
	for _, disk := range disks {
		if err := zeroEnds(disk); err != nil {
			return fmt.Errorf("clean %s: %w", disk, err)
		}
	}
	return nil
}

func zeroEnds(disk string) error {
	var f *os.File
	err := syscall.EBUSY
	for range 50 {
		var openErr error
		if f, openErr = os.OpenFile(disk, os.O_RDWR|os.O_EXCL|os.O_SYNC, 0); openErr == nil {
			err = 0
			break
		}
		if !errors.Is(openErr, syscall.EBUSY) {
			return openErr
		}
		time.Sleep(100 * time.Millisecond) // udev looks at it
	}
	if err != 0 {
		return err
	}
	defer f.Close()
	end, seekErr := f.Seek(0, io.SeekEnd)
	if seekErr != nil {
		return seekErr
	}
	zeroes := make([]byte, edge)
	_, head := f.WriteAt(zeroes, 0)
	_, tail := f.WriteAt(zeroes, end-edge)
	return errors.Join(head, tail)
}

// release takes the volumes of the groups away from the kernel, so that the disks can be unplugged.
func (b *Bench) release(groups ...string) {
	for _, g := range groups {
		if err := (lvm{}).run(context.Background(), "vgchange", "-an", g); err != nil {
			fmt.Fprintln(b.cfg.Log, err)
		}
	}
}

// finish adds what the node is.
func (b *Bench) finish() (measure.Report, error) {
	var uts syscall.Utsname
	if err := syscall.Uname(&uts); err != nil {
		return measure.Report{}, err
	}
	release := strings.TrimRight(string(bytesOf(uts.Release[:])), "\x00")
	out, err := exec.Command(lvmBinary, "version", "--driverloaded", "n").Output()
	if err != nil {
		return measure.Report{}, fmt.Errorf("lvm version: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "LVM version:"); ok {
			b.report.Machine = fmt.Sprintf("Linux %s, LVM %s", release, strings.TrimSpace(v))
		}
	}
	slices.SortStableFunc(b.report.Samples, func(x, y measure.Sample) int { return cmp.Compare(x.Round, y.Round) })
	return b.report, nil
}

func bytesOf(chars []int8) []byte {
	out := make([]byte, len(chars))
	for i, c := range chars {
		out[i] = byte(c)
	}
	return out
}
