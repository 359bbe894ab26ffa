// Package disk reads what is written on a block device, and clears it. Reading opens the device read-only; writing is in
// Wipe, Release, SealOSD, FinishOSD and ClearOSD alone, which all work under an exclusive open and can be killed at any instant and repeated. The package
// knows nothing about whether a device may be cleared: it does what it is told, after the caller's own check through the
// open file.
package disk

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/agent/internal/host/disk/lock"
	"quarry.storage/quarry/pkg/osd"
)

// Facts are what is written on one device.
type Facts struct {
	// SizeBytes and SectorBytes, the logical sector size, as the open device tells them.
	SizeBytes   int64
	SectorBytes int
	// Signatures, ordered by offset and type.
	Signatures []format.Signature
	// HeadTailZero is true when the first and the last MiB hold only zeroes.
	HeadTailZero bool
	// Unlabelled is true when they hold nothing but the header of an LVM metadata area without a group: pvcreate was killed before it wrote the label.
	Unlabelled bool
	// ContentDigest is the SHA-256, in hex, of the first and the last MiB; empty for a physical volume, whose content moves.
	ContentDigest string
	// Labels are the labels of Ceph's BlueStore, ordered by place; nil for a physical volume, in whose volumes they may stand.
	Labels []osd.Found
	// Headers are the headers of LUKS2 of encrypted OSDs, ordered by place; nil for a physical volume.
	Headers []osd.Header
	// LabelDigest is the SHA-256, in hex, of the labels of Ceph's BlueStore that stand in neither end; empty where there is none, and for a
	// physical volume.
	LabelDigest string
	// Wipe is the mark of a wipe in progress, nil when there is none.
	Wipe *Mark
	// PVUUID is the UUID in the LVM label, empty when there is none.
	PVUUID string
	// PVInGroup is true when the metadata of the physical volume on it names a group.
	PVInGroup bool
	// PVAreas is the number of metadata areas of the physical volume, and PVGroup the group that they name; empty where that cannot be read.
	PVAreas int
	PVGroup format.Group

	// label is where these two come from; nil when there is none.
	label *format.Label
}

// Clean reports whether nothing at all was found.
func (f Facts) Clean() bool {
	return len(f.Signatures) == 0 && f.HeadTailZero && f.Wipe == nil && f.PVUUID == ""
}

// Kinds of failures, for errors.Is.
var (
	// ErrBusy means that something holds the device.
	ErrBusy = lock.ErrBusy
	// ErrMark means that the device carries the mark of another wipe than the one asked for.
	ErrMark = errors.New("another wipe is in progress")
	// ErrNotClean means that something was found where nothing must be.
	ErrNotClean = errors.New("device is not clean")
	// ErrNotOurs means that the device does not carry the physical volume, or the OSD, to remove.
	ErrNotOurs = errors.New("not what was expected on it")
)

// Tool probes and clears devices. Its methods are safe for concurrent use.
type Tool struct {
	// Table has the devices that this process works on. Wipe and Release lock theirs.
	*lock.Table

	// beforeWrite is called before every single write, so that tests can die there.
	beforeWrite func(off int64, n int) error
}

// New makes a Tool.
func New() *Tool { return &Tool{Table: lock.New()} }

// Number is the device number behind an open file.
func Number(f *os.File) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, fmt.Errorf("%s is not a block device", f.Name())
	}
	return unix.Major(st.Rdev), unix.Minor(st.Rdev), nil
}

// Probe reads the device through an open that is in nobody's way: another program gets the device exclusively meanwhile, and udev,
// which looks at what was open for writing, is not stirred. An error means that nothing is known about the content.
func (t *Tool) Probe(ctx context.Context, path string) (Facts, error) {
	if err := ctx.Err(); err != nil {
		return Facts{}, fmt.Errorf("probe %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Facts{}, fmt.Errorf("probe: %w", err)
	}
	defer f.Close()
	return ProbeFile(f)
}
