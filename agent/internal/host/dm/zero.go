package dm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Volume is one logical volume, as LVM calls it.
type Volume struct {
	Group, GroupUUID, Name, UUID string
}

// dmUUID is what device-mapper calls it.
func (v Volume) dmUUID() string { return uuidPrefix + strings.ReplaceAll(v.GroupUUID+v.UUID, "-", "") }

// atOnce bounds what the kernel is told to zero in one call, which cannot be interrupted: a slow disk writes that in seconds.
const atOnce = 64 << 20

// Zero makes a volume read as zero between two offsets. The data has reached the disk when it returns. It opens the device exclusively, so
// that nothing that is mounted, or that another device stands on, is ever zeroed: ErrInUse. A device of that name with other UUIDs is left
// alone: ErrNotLVM. It stops soon after the context ends.
//
// The kernel lets the disk write the zeroes by itself where that can, and writes them where it cannot.
func (r *Reader) Zero(ctx context.Context, v Volume, from, to int64) error {
	err := r.alone(v, from, to, func(f *os.File) error { return ZeroRange(ctx, f, from, to, false, nil) })
	if err != nil {
		return fmt.Errorf("zero %s/%s from byte %d to %d: %w", v.Group, v.Name, from, to, err)
	}
	return nil
}

// alone opens a volume exclusively, which fails while somebody else has it open like that, makes sure that it is that volume and holds the range, and does something to it.
func (r *Reader) alone(v Volume, from, to int64, do func(*os.File) error) error {
	d, err := r.Find(v.Group, v.Name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.Path, os.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.same(f, v); err != nil {
		return err
	}
	if from < 0 || to > d.SizeBytes {
		return fmt.Errorf("the device has %d bytes: %w", d.SizeBytes, ErrNotLVM)
	}
	return do(f)
}

// ZeroRange makes a device that the caller has for itself read as zero between two offsets, and returns once the data has reached the disk. With
// discard, the disk forgets what was there where it can. done is told how far it is; it may be nil. It stops soon after the context
// ends.
func ZeroRange(ctx context.Context, f *os.File, from, to int64, discard bool, done func(at int64)) error {
	for at := from; at < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		count := min(atOnce, to-at)
		if !discard || !forget(f, at, count) {
			if err := ZeroOut(f, at, count); err != nil {
				return err
			}
		}
		at += count
		if done != nil {
			done(at)
		}
	}
	return f.Sync()
}

// forget has the disk deallocate a range and read it as zero, and reports whether it does that. A disk that can only do the former is told so, too: what it
// returns then is not known.
func forget(f *os.File, from, count int64) bool {
	if unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, count) == nil {
		return true
	}
	// One that cannot discard is written to, and one whose path fails says so then.
	_ = discard(f, from, count)
	return false
}

// same makes sure that the open device is the volume. While it is open, nobody can make another one of it.
func (r *Reader) same(f *os.File, v Volume) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	d, err := r.Find(v.Group, v.Name)
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFBLK, unix.Major(st.Rdev) != d.Major, unix.Minor(st.Rdev) != d.Minor:
		return fmt.Errorf("%s is another device by now: %w", d.Path, ErrNotLVM)
	case v.GroupUUID == "" || v.UUID == "" || d.UUID != v.dmUUID():
		return fmt.Errorf("device with uuid %q, not %q: %w", d.UUID, v.dmUUID(), ErrNotLVM)
	}
	return nil
}

// ZeroOut makes a part of a device that the caller has for itself read as zero, by the request BLKZEROOUT. The data may not have reached the disk when it returns.
func ZeroOut(f *os.File, from, count int64) error {
	span := [2]uint64{uint64(from), uint64(count)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKZEROOUT, uintptr(unsafe.Pointer(&span)))
	if errno != 0 {
		return os.NewSyscallError("BLKZEROOUT", errno)
	}
	return nil
}
