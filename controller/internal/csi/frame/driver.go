package frame

import (
	"context"
	"iter"
	"time"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/csirpc"
)

// Driver describes a driver. What a driver can do beyond it follows from the interfaces that its Backend implements.
type Driver struct {
	// Name of the driver, as in a StorageClass.
	Name string
	// Volumes and Snapshots say how the driver names them. Snapshots is needed by a Snapshotter only.
	Volumes, Snapshots Naming
	// Offer is what volumes are capable of.
	Offer volume.Offer
	// Parameters refuses the parameters of a StorageClass that are wrong, of those that Kubernetes did not add.
	Parameters func(own map[string]string) error
	// Topology is the label of nodes that says where a volume is; empty when every node reaches every volume. One that ends in a slash begins
	// the labels of storages: the name of a storage follows, and the value is "true" on the nodes that reach its volumes. What is said of nodes in
	// places is said of storages then.
	Topology string
	// Clones is true when a volume can begin with the content of another one.
	Clones bool
	// NodeExpansion is true when the node grows the filesystem of a volume that became larger.
	NodeExpansion bool
	// AttachReadOnly is true when an attachment can be read-only. Without it the node service alone keeps pods from writing.
	AttachReadOnly bool
}

// Naming says how a driver names volumes, or snapshots.
type Naming struct {
	// Name makes the driver's name from the one that the orchestrator chose, always the same one.
	Name func(asked string) string
	// Parse returns the driver's name in a handle. The error is volume.ErrNotOurs when it is no handle of the driver.
	Parse func(handle string) (name string, err error)
}

// Backend does the work of a driver. The frame has validated what it passes on, and holds the lock of the volume in calls that change
// it. Every call can be killed at any instant and repeated. Errors are volume.Refusals, decide.Faults, or those of package csirpc; an
// error without a known meaning is INTERNAL.
type Backend interface {
	// CreateVolume makes a volume, or returns it when it is there already.
	CreateVolume(ctx context.Context, w Wish) (Volume, error)
	// DeleteVolume removes a volume. A volume that is known to be absent is no error; volume.ErrNotOurs says that none ever was.
	DeleteVolume(ctx context.Context, handle string) error
	// ExpandVolume makes a volume at least as large as wanted, and returns its size.
	ExpandVolume(ctx context.Context, handle string, size volume.Range) (bytes int64, err error)
	// Volume returns a volume that exists, with its condition.
	Volume(ctx context.Context, handle string) (Volume, error)
	// Volumes yields all volumes in an order of the backend, from the given handle on; from the first one when it is empty.
	Volumes(ctx context.Context, from string) iter.Seq2[Volume, error]
}

// Snapshotter is a Backend with snapshots.
type Snapshotter interface {
	// CreateSnapshot makes a snapshot of a volume, or returns it when it is there already. It is called again and again while that is being made.
	CreateSnapshot(ctx context.Context, name, of string) (Snapshot, error)
	// DeleteSnapshot removes a snapshot, as DeleteVolume does a volume.
	DeleteSnapshot(ctx context.Context, handle string) error
	// Snapshot returns a snapshot that exists.
	Snapshot(ctx context.Context, handle string) (Snapshot, error)
	// Snapshots yields the snapshots that fit in an order of the backend, from the given handle on.
	Snapshots(ctx context.Context, f Filter, from string) iter.Seq2[Snapshot, error]
}

// Measurer is a Backend that knows how much room is left.
type Measurer interface {
	// Capacity returns the room for volumes with these parameters, on one node or, when that is empty, on all.
	Capacity(ctx context.Context, parameters map[string]string, node string) (volume.Capacity, error)
}

// Sweeper is a Backend that finds what calls whose answers were lost left behind.
type Sweeper interface {
	// Sweep removes volumes that nobody was ever told of, and returns their handles. It is called every minute.
	Sweep(ctx context.Context) (removed []string, err error)
}

// Attacher is a Backend whose volumes are attached to nodes.
type Attacher interface {
	// Attach makes a volume reachable from a node. What it returns goes to the node service.
	Attach(ctx context.Context, a Attachment) (publish map[string]string, err error)
	// Detach makes a volume unreachable from a node; from all nodes when that is empty.
	Detach(ctx context.Context, handle, node string) error
}

// Wish is a volume that is wanted.
type Wish struct {
	// Name is the driver's name of the volume.
	Name string
	// Parameters of the StorageClass, without those that Kubernetes adds.
	Parameters map[string]string
	// Claim that the volume is for, as far as the request says it.
	Claim volume.Claim
	// Access are the ways in which the volume is used; at least one.
	Access   []csirpc.Access
	Size     volume.Range
	Topology volume.Topology
	// Source of the content; nil for an empty volume.
	Source *Source
}

// Source is a volume or a snapshot whose content is copied.
type Source struct {
	Handle   string
	Snapshot bool
}

// Volume is a volume that exists.
type Volume struct {
	Handle string
	Bytes  int64
	// Nodes that reach it, or the storage whose nodes do; without effect when the driver has no topology. See Driver.Topology.
	Nodes []string
	// Context goes into the PersistentVolume, and from there to the node service.
	Context map[string]string
	// Attached are the nodes that it is attached to.
	Attached  []string
	Condition volume.Condition
}

// Snapshot is a snapshot that exists.
type Snapshot struct {
	// Handle of the snapshot; Of is the handle of its volume, which may be gone, and empty where it is not known.
	Handle, Of string
	Bytes      int64
	// Created is zero when the time is not known.
	Created time.Time
	// Making is true while the content is being copied: the snapshot is of that time already, and cannot be restored yet.
	Making bool
}

// Filter says which snapshots are meant. An empty field does not matter.
type Filter struct {
	// Handle of one snapshot; Of is the handle of the volume that they are of.
	Handle, Of string
}

// Attachment is a volume that is wanted on a node.
type Attachment struct {
	Handle, Node string
	Access       csirpc.Access
	ReadOnly     bool
	// Context of the volume, as CreateVolume returned it.
	Context map[string]string
}
