package linear

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/dm"
)

// Zero makes the device read as zero between two offsets. The data has reached the disk when it returns. It has the device for itself meanwhile: nobody
// mounts it, and it is not removed. One that is open is ErrInUse. With discard, the disk forgets what was there where it can. done is
// told how far it is; it may be nil. It stops soon after the context ends.
func (d *Devices) Zero(ctx context.Context, v Volume, from, to int64, discard bool, done func(at int64)) error {
	if err := d.zero(ctx, v, from, to, discard, done); err != nil {
		return fmt.Errorf("zero volume %s from byte %d to %d: %w", v.UUID, from, to, err)
	}
	return nil
}

func (d *Devices) zero(ctx context.Context, v Volume, from, to int64, discard bool, done func(int64)) error {
	f, bytes, err := d.own(ctx, v, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if from < 0 || to > bytes {
		return fmt.Errorf("%w: the device has %d bytes", ErrInvalid, bytes)
	}
	return dm.ZeroRange(ctx, f, from, to, discard, done)
}

// own opens a device that nobody else has open, and keeps others from it until it is closed. It returns its size, too.
func (d *Devices) own(ctx context.Context, v Volume, mode int) (*os.File, int64, error) {
	have, err := d.idle(ctx, v)
	switch {
	case err != nil:
		return nil, 0, err
	case have == nil || have.Path == "":
		return nil, 0, os.ErrNotExist
	case have.Suspended || !have.Linear:
		return nil, 0, fmt.Errorf("%w: its table cannot be used", ErrOther)
	}
	f, err := os.OpenFile(have.Path, mode|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, 0, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := d.alone(ctx, f, *have); err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, have.Sectors * 512, nil
}

// alone waits until nobody else has an open device open, for a moment: udev may open a new one after idle looked, and whoever else has it open reads what was
// there, or writes.
func (d *Devices) alone(ctx context.Context, f *os.File, was Device) error {
	for wait := patience; ; wait -= pause {
		now, err := d.same(ctx, f, was)
		// It is open once, here.
		if err != nil || now.Open <= 1 {
			return err
		}
		if wait <= 0 {
			return fmt.Errorf("%w%s", ErrInUse, d.users(now))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// same makes sure that an open device is still the volume. While it is open, nobody can make another one of it.
func (d *Devices) same(ctx context.Context, f *os.File, was Device) (Device, error) {
	now, err := d.find(ctx, was.Volume)
	if err != nil {
		return Device{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Device{}, err
	}
	if now == nil || unix.Major(st.Rdev) != now.Major || unix.Minor(st.Rdev) != now.Minor || now.Sectors != was.Sectors {
		return Device{}, fmt.Errorf("%w: %s is another device by now", ErrOther, was.Path)
	}
	return *now, nil
}
