package dm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoDiscard is returned for a volume on disks of which at least one cannot discard.
var ErrNoDiscard = errors.New("the device cannot discard")

// Discard has the disks forget what a volume holds between two offsets. What it reads as afterwards is not known, so this replaces no zeroes.
// It opens the device as Zero does, and refuses what that refuses: ErrInUse, ErrNotLVM. It stops soon after the context ends. A device that
// cannot discard keeps what it holds: ErrNoDiscard.
func (r *Reader) Discard(ctx context.Context, v Volume, from, to int64) error {
	err := r.alone(v, from, to, func(f *os.File) error { return discardRange(ctx, f, from, to) })
	if err != nil {
		return fmt.Errorf("discard %s/%s from byte %d to %d: %w", v.Group, v.Name, from, to, err)
	}
	return nil
}

// discardRange asks for a bounded part at a time: one call to the kernel cannot be interrupted.
func discardRange(ctx context.Context, f *os.File, from, to int64) error {
	for at := from; at < to; at += atOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := discard(f, at, min(atOnce, to-at)); err != nil {
			return err
		}
	}
	return nil
}

// discard is the request BLKDISCARD.
func discard(f *os.File, from, count int64) error {
	span := [2]uint64{uint64(from), uint64(count)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKDISCARD, uintptr(unsafe.Pointer(&span)))
	switch errno {
	case 0:
		return nil
	case unix.EOPNOTSUPP:
		return ErrNoDiscard
	}
	return os.NewSyscallError("BLKDISCARD", errno)
}
