package linear

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/dm"
)

const (
	// copyAtOnce is how much is read and written in one request.
	copyAtOnce = 1 << 20
	// copySync is how much is written before it is made sure that it has reached the disk.
	copySync = 64 << 20
)

// Options of a copy.
type Options struct {
	// Discard has the disk forget what was behind the copied bytes, where it can.
	Discard bool
	// Pace is asked before so many bytes are copied; nil lets all go at once.
	Pace func(ctx context.Context, bytes int64) error
}

// Copy copies the first count bytes of one device to another one, and zeroes that from there to its end, size. What done is told has reached the disk, and so has all when it
// returns. It has both devices for itself meanwhile. One that is open is ErrInUse. Without any bytes to copy the first device may lack. It stops soon after the context ends.
func (d *Devices) Copy(ctx context.Context, from, to Volume, count, size int64, o Options, done func(at int64)) error {
	if err := d.copy(ctx, from, to, count, size, o, done); err != nil {
		return fmt.Errorf("copy to volume %s: %w", to.UUID, err)
	}
	return nil
}

func (d *Devices) copy(ctx context.Context, from, to Volume, count, size int64, o Options, done func(int64)) error {
	// Nothing goes through the cache of the kernel: what is read is what the disk has, and the memory stays for those who use it.
	out, bytes, err := d.own(ctx, to, os.O_RDWR|unix.O_DIRECT)
	if err != nil {
		return err
	}
	defer out.Close()
	if count < 0 || count > size || size != bytes {
		return fmt.Errorf("%w: %d bytes to be copied, of %d, to a device of %d", ErrInvalid, count, size, bytes)
	}
	if count > 0 {
		in, bytes, err := d.own(ctx, from, os.O_RDONLY|unix.O_DIRECT)
		if err != nil {
			return err
		}
		defer in.Close()
		if bytes != count {
			return fmt.Errorf("%w: %d bytes to be copied from a device of %d", ErrInvalid, count, bytes)
		}
		if err := duplicate(ctx, in, out, count, o.Pace, done); err != nil {
			return err
		}
	}
	if err := dm.ZeroRange(ctx, out, count, size, o.Discard, nil); err != nil {
		return err
	}
	if done != nil {
		done(size)
	}
	return nil
}

// duplicate copies the first bytes of one file to another one.
func duplicate(ctx context.Context, in io.ReaderAt, out *os.File, count int64, pace func(context.Context, int64) error, done func(int64)) error {
	// Memory of the kernel's is aligned as direct requests need it.
	buffer, err := unix.Mmap(-1, 0, copyAtOnce, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	for at, synced := int64(0), int64(0); at < count; {
		part := buffer[:min(copyAtOnce, count-at)]
		if err := paced(ctx, pace, int64(len(part))); err != nil {
			return err
		}
		if _, err := in.ReadAt(part, at); err != nil {
			return err
		}
		if err := put(out, part, at); err != nil {
			return err
		}
		at += int64(len(part))
		if at-synced < copySync && at < count {
			continue
		}
		if err := out.Sync(); err != nil {
			return err
		}
		synced = at
		if done != nil {
			done(at)
		}
	}
	return nil
}

func paced(ctx context.Context, pace func(context.Context, int64) error, bytes int64) error {
	if pace == nil {
		return ctx.Err()
	}
	return pace(ctx, bytes)
}

// put writes a part. One of zeroes is not sent over the network where the disk can zero it by itself.
func put(out *os.File, part []byte, at int64) error {
	if bytes.Count(part, []byte{0}) == len(part) {
		return dm.ZeroOut(out, at, int64(len(part)))
	}
	_, err := out.WriteAt(part, at)
	return err
}
