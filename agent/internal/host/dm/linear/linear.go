// Package linear makes, changes and removes the devices of volumes of which a table is known: ranges of one other device, one after the other. It
// knows neither LVM nor the group that the ranges come from. Its devices have names and UUIDs that LVM never gives, and it changes no others.
//
// Every step can be killed and repeated: what it leaves is a device without a table, with a table that is loaded and not live, or one that is
// suspended, and List tells all three.
package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
)

// Kinds of failures, for errors.Is.
var (
	// ErrInUse means that a device is open, or that another one stands on it.
	ErrInUse = errors.New("the device is in use")
	// ErrOther means that a device of the name is not the volume's.
	ErrOther = errors.New("another device has the name")
	// ErrInvalid means that an argument was refused before any command ran.
	ErrInvalid = errors.New("invalid argument")
)

const (
	// dmsetup is where distributions install it, with LVM.
	dmsetup = "/usr/sbin/dmsetup"
	// timeout bounds one command. One that suspends a device waits for I/O under way, which may hang with its path. Killed, it lets go of the device.
	timeout = 30 * time.Second
	// patience is how long somebody may have a device open who only looks at it; pause is that between two looks.
	patience, pause = 2 * time.Second, 100 * time.Millisecond
)

// Config says how to run dmsetup. Empty paths mean the host's own.
type Config struct {
	Runner         run.Runner
	Sys, Dev, Proc string
}

// Devices are those of device-mapper on this node. Calls on one volume have to be serialised by the caller.
type Devices struct {
	runner         run.Runner
	sys, dev, proc string
}

// New makes Devices.
func New(cfg Config) *Devices {
	return &Devices{runner: cfg.Runner, sys: cmp.Or(cfg.Sys, "/sys"), dev: cmp.Or(cfg.Dev, "/dev"), proc: cmp.Or(cfg.Proc, "/proc")}
}

// Segment is a part of a device, in sectors of 512 bytes.
type Segment struct {
	// On is the number of the device that it lies on: "8:16".
	On string
	// Start is where on that device it begins.
	Start, Sectors int64
}

// table is what dmsetup reads.
func table(segments []Segment) []byte {
	var b strings.Builder
	at := int64(0)
	for _, s := range segments {
		fmt.Fprintf(&b, "%d %d linear %s %d\n", at, s.Sectors, s.On, s.Start)
		at += s.Sectors
	}
	return []byte(b.String())
}

// Load makes the device have exactly these segments, live, and lets go of it. One that does not exist is made. What runs in it waits for a moment.
//
// The kernel opens the devices of the segments when the table is loaded, and looks at their numbers only then. sure is asked after that, and before
// anybody can use the table; if it returns an error, the device is what it was. It may be nil.
func (d *Devices) Load(ctx context.Context, v Volume, segments []Segment, sure func(context.Context) error) error {
	for _, s := range segments {
		if s.Start < 0 || s.Sectors <= 0 || !numberForm.MatchString(s.On) {
			return fmt.Errorf("device of volume %s: %w: segment %+v", v.UUID, ErrInvalid, s)
		}
	}
	if len(segments) == 0 {
		return fmt.Errorf("device of volume %s: %w: no segments", v.UUID, ErrInvalid)
	}
	if err := d.replace(ctx, v, table(segments), sure, "--nolockfs"); err != nil {
		return fmt.Errorf("device of volume %s: %w", v.UUID, err)
	}
	return nil
}

var numberForm = regexp.MustCompile(`^[0-9]{1,4}:[0-9]{1,8}$`)

// replace loads a table, and makes it live. What a call that was cut off has loaded is dropped first.
//
// The filesystem on the device is not frozen: that would write, and wait for ever with a path that is down. All I/O that is under way is waited for.
func (d *Devices) replace(ctx context.Context, v Volume, table []byte, sure func(context.Context) error, suspend ...string) error {
	have, err := d.find(ctx, v)
	if err != nil {
		return err
	}
	if have == nil {
		if err := d.run(ctx, nil, "create", v.name(), "--uuid", v.uuid(), "--notable"); err != nil {
			return err
		}
	}
	if err := d.run(ctx, nil, "clear", v.name()); err != nil {
		return err
	}
	load := []string{"load", v.name()}
	if v.Source {
		load = []string{"load", "--readonly", v.name()}
	}
	if err := d.run(ctx, table, load...); err != nil {
		return err
	}
	if sure != nil {
		if err := sure(ctx); err != nil {
			return errors.Join(err, d.drop(ctx, v, have))
		}
	}
	if have != nil && have.Live {
		if err := d.run(ctx, nil, append(append([]string{"suspend"}, suspend...), v.name())...); err != nil {
			return errors.Join(err, d.takeBack(ctx, v))
		}
	}
	if err := d.run(context.WithoutCancel(ctx), nil, "resume", "--nolockfs", v.name()); err != nil {
		return err
	}
	return d.run(ctx, nil, "mknodes", v.name())
}

// drop drops the table that was loaded, and a device that had none before. The context may have ended.
func (d *Devices) drop(ctx context.Context, v Volume, have *Device) error {
	ctx = context.WithoutCancel(ctx)
	if have == nil {
		return d.run(ctx, nil, "remove", v.name())
	}
	return d.run(ctx, nil, "clear", v.name())
}

// takeBack has a device go on with the table that it had. The suspension may have been ended by the context right after it was done.
func (d *Devices) takeBack(ctx context.Context, v Volume) error {
	ctx = context.WithoutCancel(ctx)
	if err := d.run(ctx, nil, "clear", v.name()); err != nil {
		return err
	}
	return d.run(ctx, nil, "resume", "--nolockfs", v.name())
}

// Cut makes the device return errors, to those too who wait because it is suspended. I/O that the device below has already is waited for: only that one ends
// it. Nothing happens to a device that does not exist.
func (d *Devices) Cut(ctx context.Context, v Volume) error {
	have, err := d.find(ctx, v)
	if err != nil || have == nil || have.Cut && !have.Suspended {
		return err
	}
	if !have.Live || have.Sectors == 0 {
		return nil
	}
	if err := d.replace(ctx, v, fmt.Appendf(nil, "0 %d error\n", have.Sectors), nil, "--nolockfs", "--noflush"); err != nil {
		return fmt.Errorf("cut the device of volume %s: %w", v.UUID, err)
	}
	return nil
}

// Remove removes the device. One that somebody has open is ErrInUse, and stays. Nothing happens when it does not exist.
func (d *Devices) Remove(ctx context.Context, v Volume) error {
	for begin := time.Now(); ; time.Sleep(pause) {
		opened, err := d.removeIdle(ctx, v)
		if err == nil {
			break
		}
		if !opened || time.Since(begin) > patience || ctx.Err() != nil {
			return err
		}
	}
	if _, err := os.Lstat(d.node(v)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// A call that was cut off left the node: its number may be that of another device soon.
	return d.run(ctx, nil, "mknodes", v.name())
}

// removeIdle removes the device if nobody has it open. Nothing happens when it does not exist. With opened the kernel refused: somebody opened it in the
// moment since, as udev does at any time.
func (d *Devices) removeIdle(ctx context.Context, v Volume) (opened bool, err error) {
	have, err := d.idle(ctx, v)
	if err != nil || have == nil {
		return false, err
	}
	if have.InUse() {
		return false, fmt.Errorf("device of volume %s: %w%s", v.UUID, ErrInUse, d.users(*have))
	}
	if err := d.run(ctx, nil, "remove", v.name()); err != nil {
		return errors.Is(err, ErrInUse), fmt.Errorf("remove the device of volume %s: %w", v.UUID, err)
	}
	return false, nil
}

// idle is find, once nobody has the device open any more, or after a moment: udev looks at a device whenever somebody who wrote has closed it.
func (d *Devices) idle(ctx context.Context, v Volume) (*Device, error) {
	for wait := patience; ; wait -= pause {
		have, err := d.find(ctx, v)
		if err != nil || have == nil || !have.InUse() || len(have.Holders) > 0 || wait <= 0 {
			return have, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return have, nil
		}
	}
}

func (d *Devices) node(v Volume) string { return filepath.Join(d.dev, "mapper", v.name()) }

// find is the device of a volume; nil when there is none.
func (d *Devices) find(ctx context.Context, v Volume) (*Device, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	all, err := d.List(ctx, v.Group)
	if err != nil {
		return nil, err
	}
	for _, have := range all {
		if have.Volume == v {
			return &have, nil
		}
	}
	return nil, nil
}

// run runs a command of dmsetup that does not wait for udev, which may be busy with other disks, and makes nodes by itself.
func (d *Devices) run(ctx context.Context, stdin []byte, args ...string) error {
	_, err := d.dmsetup(ctx, stdin, args...)
	return err
}

func (d *Devices) dmsetup(ctx context.Context, stdin []byte, args ...string) (run.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := d.runner.Run(ctx, run.Command{Path: dmsetup, Args: args, Stdin: stdin, Env: []string{"DM_DISABLE_UDEV=1"}})
	var exit *run.Error
	if errors.As(err, &exit) && strings.Contains(exit.Stderr, "Device or resource busy") && args[0] != "load" {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return res, err
}
