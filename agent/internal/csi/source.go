package csi

import (
	"context"
	"errors"
	"slices"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/csirpc"
)

// Volume is one volume, as a call names it.
type Volume struct {
	// Handle is the volume's handle.
	Handle string
	// Context is what the controller recorded of the volume. Calls that end its use do not carry it.
	Context map[string]string
	// Publish is what the controller returned when the volume was attached to this node; empty for a driver that does not attach. Only
	// the calls that stage and publish carry it.
	Publish map[string]string
	// Secrets are what the StorageClass names for staging; only the call that stages carries them. They go into no error and no log.
	Secrets map[string]string
}

// Access is how a volume is wanted.
type Access struct {
	csirpc.Access
	// Options are those of the filesystem on a device.
	Options mount.Options
	// Frozen is true when the mount options let nobody write.
	Frozen bool
}

// From is what a volume is known by on this node.
type From struct {
	// Path, Number and SizeBytes are those of a block device.
	Path      string
	Number    mount.Device
	SizeBytes int64
	// New is true for a volume that, as is recorded of it, nobody used yet.
	New bool
	// Zeroed is true for a volume that showed zeroes when it was made: whatever is on it was written since.
	Zeroed bool
	// RawZeroed is true for a volume that, if it is shown raw, showed zeroes when it was made, unless its storage gives that up: whatever is on
	// it was written since. A filesystem that is made on it must not rely on that.
	RawZeroed bool
	// Thin is true for a volume that shares the space of a pool: what is discarded on it others can have.
	Thin bool
	// UUID is that of the filesystem that is made on the volume; no other volume has it. Empty when the source gives none.
	UUID string
	// MadeUnix is when the volume was made; 0 when that is not known.
	MadeUnix int64
	// Types are the filesystem types, and Tree the source, of a mounted tree, as the mount table has them. Without Tree, any mount of
	// these types counts.
	Types []string
	Tree  string
	// ReadOnly is true for a tree that is mounted read-only whatever a capability asks for: what is recorded of the volume wants that.
	ReadOnly bool
}

// Shows reports whether a mount shows the volume.
func (f From) Shows(p mount.Point) bool {
	if len(f.Types) == 0 {
		return p.Device == f.Number
	}
	return slices.Contains(f.Types, p.FSType) && (f.Tree == "" || p.Source == f.Tree)
}

// Profile is what a driver is and offers on a node.
type Profile struct {
	// Name of the driver.
	Name string
	// Local is true when a volume exists on one node only, and says so in its topology.
	Local bool
	// MaxVolumes limits the volumes in use on a node; the orchestrator decides when it is 0.
	MaxVolumes int64
	// Codes are the codes of the errors of its source.
	Codes csirpc.Table
}

// Source is one driver's part: it knows its volumes, and makes them usable on this node. It is a Devices or a Trees besides.
type Source interface {
	// Profile describes the driver.
	Profile() Profile
	// Check refuses a handle of a volume that this driver does not have on this node.
	Check(handle string) error
	// Accept refuses a use that the driver does not offer, whatever the volume.
	Accept(want csirpc.Access) (Access, error)
	// Find says what a volume is known by, and changes nothing. ErrNotThere says that the volume is not ready.
	Find(ctx context.Context, v Volume) (From, error)
	// Ready makes a volume ready for use.
	Ready(ctx context.Context, v Volume, want Access) (From, error)
	// Release follows when a volume is used no more on this node.
	Release(ctx context.Context, v Volume) error
}

// Devices is a Source of block devices. The frame makes filesystems on them, checks, mounts and grows them.
type Devices interface {
	Source
	// FirstUse makes a new volume ready for what it is wanted for, and lets it count as used. It returns the filesystem that it made, which is
	// empty when there is one already.
	FirstUse(ctx context.Context, v Volume, from From, want Access) (fsType string, err error)
	// Showable refuses a volume whose device must not be shown as it is.
	Showable(ctx context.Context, v Volume) error
}

// Trees is a Source of mounted trees. Whatever touches such a mount may wait for a server: only the source does that.
type Trees interface {
	Source
	// Mount mounts a volume on a directory.
	Mount(ctx context.Context, v Volume, want Access, path string) error
	// Unmount takes away a mount of a volume. last says that it is the one that the others were made from.
	Unmount(ctx context.Context, v Volume, p mount.Point, last bool) error
	// Measure reads the usage of a mount.
	Measure(ctx context.Context, at mount.Point) (fs.Usage, error)
	// Serves refuses a mount that its server does not serve, so that every use of it is an error: the server shut this node out, or does not know what is mounted. One that does
	// not answer may come back, and its mounts with it: they pass.
	Serves(ctx context.Context, at mount.Point) error
}

// Errors that sources share.
var (
	// ErrNotThere means that a volume is not on this node, or not ready.
	ErrNotThere = errors.New("the volume is not there")
	// ErrPrecondition means that a volume is not in a state for what was asked.
	ErrPrecondition = errors.New("the volume is not ready for this")
	// ErrUnavailable means that what a volume needs does not answer now.
	ErrUnavailable = errors.New("it does not answer")
)
