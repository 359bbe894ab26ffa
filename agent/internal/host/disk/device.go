package disk

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

// device is a device that is open for writing, exclusively.
type device struct {
	file   *os.File
	size   int64
	sector int
	// before is called before every single write.
	before func(off int64, n int) error
	free   func()
}

// open locks the device against udev's probing and opens it exclusively.
func (t *Tool) open(ctx context.Context, path string) (*device, error) {
	release, err := t.Lock(ctx, path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_EXCL|unix.O_DSYNC, 0)
	if err != nil {
		release()
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%s: %w", path, ErrBusy)
		}
		return nil, err
	}
	d := &device{file: f, before: t.beforeWrite, free: release}
	if d.size, d.sector, err = geometry(f); err != nil {
		d.close()
		return nil, err
	}
	if err := d.refresh(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// refresh makes the next reads come from the device rather than from the kernel's memory of it. An image file has no need.
func (d *device) refresh() error {
	if _, _, err := Number(d.file); err != nil {
		return nil
	}
	if err := unix.IoctlSetInt(int(d.file.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("flush %s: %w", d.file.Name(), err)
	}
	return nil
}

// close gives the device back.
func (d *device) close() {
	d.file.Close()
	d.free()
}

// write is the only place that writes to a device.
func (d *device) write(b []byte, off int64) error {
	if d.before != nil {
		if err := d.before(off, len(b)); err != nil {
			return err
		}
	}
	if _, err := d.file.WriteAt(b, off); err != nil {
		return fmt.Errorf("write %d bytes at %d: %w", len(b), off, err)
	}
	return nil
}

// zero clears a range in pieces, so that the context is looked at in between.
func (d *device) zero(ctx context.Context, r format.Range) error {
	const piece = 256 << 10
	if r.Offset < 0 || r.Bytes < 0 || r.Offset+r.Bytes > d.size {
		return fmt.Errorf("range %d+%d is not within %d bytes", r.Offset, r.Bytes, d.size)
	}
	zeroes := make([]byte, min(piece, r.Bytes))
	for r.Bytes > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(piece, r.Bytes)
		if err := d.write(zeroes[:n], r.Offset); err != nil {
			return err
		}
		r.Offset, r.Bytes = r.Offset+n, r.Bytes-n
	}
	return nil
}

// sync makes everything written so far permanent, and forgets it, so that a check reads what the device holds.
func (d *device) sync() error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return d.refresh()
}
