package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// edge is how much of both ends of a device must be empty, and sample how much in between, where filesystems keep copies of
// their first block: ext4 at 128 and 384 MiB, btrfs at 64 MiB and 256 GiB.
const (
	edge   = 1 << 20
	sample = 64 << 10
)

var samples = []int64{64 << 20, 128 << 20, 384 << 20, 256 << 30}

// span is a range of bytes.
type span struct{ off, n int64 }

// spans are the ranges that are looked at, on a device of the size.
func spans(size int64) []span {
	out := []span{{0, min(edge, size)}}
	for _, off := range samples {
		if off+sample <= size {
			out = append(out, span{off, sample})
		}
	}
	return append(out, span{max(0, size-edge), min(edge, size)})
}

// codeSeveral is the exit code of blkid for a device with more formats than one.
const codeSeveral = 8

// Probe tells which filesystem or other format is on a device; "" when there is none, and nothing else either: libblkid knows
// nothing there and both ends and the places of backup copies hold only zeroes. What cannot be read is an error, and ErrSeveral means that formats contradict each other.
func (t *Tool) Probe(ctx context.Context, device string) (string, error) {
	probe := mountutils.NewSafeFormatAndMount(nil, executor{ctx: ctx, runner: t.runner})
	format, err := probe.GetDiskFormat(device)
	if exit := (utilexec.CodeExitError{}); errors.As(err, &exit) && exit.Code == codeSeveral {
		err = fmt.Errorf("%w: %w", ErrSeveral, err)
	}
	if err != nil {
		return "", fmt.Errorf("probe %s: %w", device, err)
	}
	if format != "" {
		return format, nil
	}
	f, err := os.Open(device)
	if err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	defer f.Close()
	return "", blank(f)
}

// blank is an error when one of the ranges holds anything.
func blank(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("probe %s: %w", f.Name(), err)
	}
	zeroes, buf := make([]byte, edge), make([]byte, edge)
	for _, s := range spans(size) {
		if _, err := f.ReadAt(buf[:s.n], s.off); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("probe %s: %w", f.Name(), err)
		}
		if !bytes.Equal(buf[:s.n], zeroes[:s.n]) {
			return fmt.Errorf("probe %s: %w at %d", f.Name(), ErrUnknownData, s.off)
		}
	}
	return nil
}

// Clear makes a device hold nothing, as far as Probe sees. It is for volumes that nobody used yet, which show what was on the
// disk before, and fails when anything has the device open.
func (t *Tool) Clear(ctx context.Context, device string) error {
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("clear %s: %w", device, ErrBusy)
	}
	if err != nil {
		return fmt.Errorf("clear: %w", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("clear %s: %w", device, err)
	}
	zeroes := make([]byte, edge)
	for _, s := range spans(size) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("clear %s: %w", device, err)
		}
		if _, err := f.WriteAt(zeroes[:s.n], s.off); err != nil {
			return fmt.Errorf("clear: %w", err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("clear: %w", err)
	}
	return nil
}
