// Package fs makes, checks, grows and measures filesystems on block devices. It never overwrites what is on a device, save in
// Clear, and it does not know what a device is for.
package fs

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/filesystem"
)

// The filesystems that can be made.
const (
	Ext4  = filesystem.Ext4
	XFS   = filesystem.XFS
	Btrfs = filesystem.Btrfs
)

// Kinds of failures, for errors.Is.
var (
	// ErrUnsupported means that a filesystem is not one of those above.
	ErrUnsupported = errors.New("unsupported filesystem")
	// ErrUnknownData means that a device holds something that nobody recognises.
	ErrUnknownData = errors.New("device holds unknown data")
	// ErrSeveral means that a device holds more formats than one, so that nobody can say which one it is.
	ErrSeveral = errors.New("device holds several formats")
	// ErrNotEmpty means that a device holds something where nothing must be.
	ErrNotEmpty = errors.New("device is not empty")
	// ErrDamaged means that a filesystem has errors that are not corrected without somebody's decision.
	ErrDamaged = errors.New("filesystem is damaged")
	// ErrBlank means that a device that was used before holds nothing.
	ErrBlank = errors.New("device is blank")
	// ErrBusy means that something holds the device.
	ErrBusy = errors.New("device is in use")
)

// Tool works on filesystems through their programs.
type Tool struct {
	runner   run.Runner
	versions versions
}

// New makes a Tool.
func New(runner run.Runner) *Tool { return &Tool{runner: runner} }

// Grow makes a mounted filesystem as large as its device. One that is, stays as it is.
func (t *Tool) Grow(ctx context.Context, device, mountPoint string) error {
	// The library reads the type with blkid and calls resize2fs, xfs_growfs or btrfs.
	if _, err := mountutils.NewResizeFs(executor{ctx: ctx, runner: t.runner}).Resize(device, mountPoint); err != nil {
		return fmt.Errorf("grow: %w", err)
	}
	return nil
}

// Usage is what is used and free in a filesystem.
type Usage struct {
	TotalBytes, UsedBytes, FreeBytes int64
	// Inodes are all zero where a filesystem does not limit them.
	TotalInodes, UsedInodes, FreeInodes int64
}

// Usage measures the filesystem that is mounted at a path.
func (t *Tool) Usage(mountPoint string) (Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(mountPoint, &st); err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", mountPoint, err)
	}
	return Usage{
		TotalBytes: int64(st.Blocks) * st.Bsize, UsedBytes: int64(st.Blocks-st.Bfree) * st.Bsize, FreeBytes: int64(st.Bavail) * st.Bsize,
		TotalInodes: int64(st.Files), UsedInodes: int64(st.Files - st.Ffree), FreeInodes: int64(st.Ffree),
	}, nil
}
