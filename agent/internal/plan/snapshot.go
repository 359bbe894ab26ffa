// Package plan decides what the agent does to disks: from a Snapshot of the node and what is desired it makes a list of
// typed steps, each with a reason. It is pure: no clock, no files, no processes, no network. Observing fills its types,
// acting performs its steps.
package plan

import (
	"slices"
	"time"

	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/volumeid"
)

// Tags in LVM that mark what is ours inside a group of ours.
const (
	// TagVolume is the prefix of the tag of a volume or snapshot; its id follows.
	TagVolume = volumeid.Tag
	// TagNew marks a volume that was made empty and not used yet.
	TagNew = volumeid.TagNew
	// TagSnapshot marks a snapshot.
	TagSnapshot = quarry.Group + "/snapshot"
	// TagSource is the prefix of the tag of a snapshot that names its source: LVM forgets that when the source is removed.
	TagSource = quarry.Group + "/source="
	// TagUnzeroed is the prefix of the tag of a linear volume that has to read as zero before anybody uses it. It does up to the byte that follows.
	TagUnzeroed = quarry.Group + "/unzeroed="
	// TagFilesystemOnly marks a linear volume that holds what is left over from others below its filesystem, and is never shown raw.
	TagFilesystemOnly = quarry.Group + "/filesystem-only"
	// TagTail marks what a volume grows by while that is zeroed.
	TagTail = quarry.Group + "/tail"
	// TagTailOf is the prefix of the tag of a tail that names its volume by its id.
	TagTailOf = quarry.Group + "/tail-of="
	// TagRemoving marks a volume whose removal began, so that its disks may have discarded a part of it. A person may take it off.
	TagRemoving = quarry.Group + "/removing"
	// TagPool marks a thin pool.
	TagPool = quarry.Group + "/pool"
)

// Snapshot is everything that the agent knows about the block devices of its node at one moment.
type Snapshot struct {
	// Devices, ordered by kernel name.
	Devices []Device
	// Groups are the LVM volume groups that carry our tag, ordered by name.
	Groups []Group
	// ForeignGroups are the names of the volume groups on the node that do not, even if LVM could not report them.
	ForeignGroups []string
	// UnknownGroups are those that LVM could not report and that may be ours, ordered by name. A group is known, unknown or absent.
	UnknownGroups []UnknownGroup
}

// Device is one block device. Facts that could not be read are named in Unreadable; a device with such a fact is refused.
type Device struct {
	// Path is the stable path: the best link below /dev/disk/by-id, else by-path, else /dev/NAME.
	Path string
	// KernelName, for example "sdb".
	KernelName string
	// Major and Minor device number.
	Major, Minor uint32
	// Type is "disk", "partition" or the kind of a virtual device: "loop", "dm", "md", "zram", "ram", "rom", "floppy", "nbd",
	// "drbd", "bcache", "ubd", "rbd".
	Type string
	// Links below /dev/disk that point to it, ordered.
	Links []string
	// SizeBytes of the device.
	SizeBytes int64
	// LogicalSectorBytes and PhysicalSectorBytes.
	LogicalSectorBytes, PhysicalSectorBytes int
	Rotational, Removable, ReadOnly         bool
	// Zoned is how the device is zoned, "host-managed" or "host-aware"; empty when it is not.
	Zoned string
	// Suspended is true for a device-mapper device that blocks its readers; Mapping is the UUID that device-mapper has of one.
	Suspended                     bool
	Mapping                       string
	Model, Serial, WWN, Transport string
	// Holders are the kernel names of devices built on it or on one of its partitions, ordered.
	Holders []string
	// Paths are the kernel names of the other disks that have the same WWN, ordered: they are the same disk, over other paths. Empty for a
	// disk below a multipath device, which joins them.
	Paths []string
	// Partitions are the kernel names of its partitions, ordered.
	Partitions []string
	// Mounts are the places where it, or one of its partitions, is mounted in the host's mount namespace; "[swap]" for swap.
	Mounts []string
	// UdevTags are the facts of udev's database that name an owner: keys such as ID_FS_TYPE, DM_MULTIPATH_DEVICE_PATH.
	UdevTags map[string]string
	// Signatures that stand on it, ordered by offset.
	Signatures []Signature
	// HeadTailZero is true when the first and the last MiB of the device hold only zeroes.
	HeadTailZero bool
	// ContentDigest is the SHA-256, in hex, of the first and the last MiB. It may be empty for a device that is mounted, held or a
	// physical volume, whose content moves all the time: Digest does not use it then.
	ContentDigest string
	// Labels are the labels of Ceph's BlueStore on the device, Headers those of encrypted OSDs, ordered by place; nil for a physical volume.
	Labels  []osd.Found
	Headers []osd.Header
	// LabelDigest is the SHA-256, in hex, of the labels of Ceph's BlueStore away from both ends of the device; empty where there is none, and
	// for a physical volume.
	LabelDigest string
	// Use is what a test found of users at one moment, and Users who they were, as far as that can be told: "process qemu (pid 12)". A later test finds later ones.
	Use   Use
	Users []string
	// Version is another one after every event of the device that the kernel or udev told of. It is for noticing that something
	// happened to the device, whatever it was.
	Version string
	// Appeared is how long after the boot of the node the device appeared; nil when that is not known.
	Appeared *time.Duration
	// Wipe is the mark that a wipe in progress leaves on the device; nil when there is none.
	Wipe *WipeMark
	// PVUUID is the UUID in the label of the LVM physical volume on it; empty when it is none.
	PVUUID string
	// PVGroup is the UUID of the group that the metadata on the device itself names; empty where it names none, or holds none.
	PVGroup string
	// Group is the name of the volume group of that physical volume, ours or not; empty when it has none. Where LVM cannot report the
	// group, the metadata on the device names it.
	Group string
	// OwnerUID is the Cluster that owns that group, from its tag; empty when it is not ours.
	OwnerUID string
	// OtherNode is the LVM system ID of that group when it names another host; empty when it names this one, or none.
	OtherNode string
	// IscsiLUN: nothing on the device could be read, and it is known to be the LUN of an Iscsi, by the kernel's names of it: no group of a Cluster is on it.
	IscsiLUN bool
	// Unreadable names the facts that could not be read, with the error: "size: open /sys/…: permission denied".
	Unreadable []string
}

// Use says whether something has a device for itself, without leaving a trace that can be read.
type Use int

// Results of the test for users. The zero value is that there was none.
const (
	// Untested means that nobody has opened the device exclusively since something last happened to it.
	Untested Use = iota
	// Unused means that an exclusive open succeeded, and that nobody was found who uses the device without keeping others from that.
	Unused
	// Used means that the device could not be opened exclusively, or that somebody else has it open.
	Used
)

// WipeMark is written before a wipe destroys anything, and removed as its last act, so that an interrupted wipe can be
// recognised and finished.
type WipeMark struct {
	// Digest is the digest of the device that the wipe was approved for.
	Digest string
	// Later are the types of the signatures that were not on the device then: the approval does not cover them.
	Later []string
}

// Group is one LVM volume group that carries our tag.
type Group struct {
	Name, UUID string
	// OwnerUID is the UID of the Cluster in the tag.
	OwnerUID string
	// OwnersBefore are the UIDs of Clusters that it belonged to before that and that are gone, ordered.
	OwnersBefore []string
	// SizeBytes, FreeBytes and ExtentBytes as LVM reports them.
	SizeBytes, FreeBytes, ExtentBytes int64
	// Volumes are the names of its logical volumes, ordered; hidden ones and thin pools of ours are left out.
	Volumes []string
	// LogicalVolumes are the same with their facts, ordered by name.
	LogicalVolumes []Volume
	// Pools are its thin pools, ours or not, ordered by name.
	Pools []Pool
	// PVs are its physical volumes, ordered by path.
	PVs []PV
	// Partial is true when a physical volume is missing.
	Partial bool
	// Access says whose node the group is, and SystemID the LVM system ID that says so; empty when there is none.
	Access   Access
	SystemID string
	// Autoactivated is true when the host's own commands activate what is in it at a boot; false where LVM does not tell.
	Autoactivated bool
	// Moving is the move of extents that is under way in it, or that was cut off; nil when there is none.
	Moving *Moving
	// Emptied is the volume of LVM's own that a move left, which was cut off after it had moved everything; empty when there is none. It holds
	// nothing, and is not among the volumes.
	Emptied string
}

// PV is one physical volume of a group.
type PV struct {
	// Path is the stable path of its device; empty when the device is missing.
	Path, UUID string
	// SizeBytes and FreeBytes as LVM reports them.
	SizeBytes, FreeBytes int64
	// Returned is true when LVM takes it for missing even if its device is there: the group was changed while the device was away.
	Returned bool
}

// HealthPartial is the health of a volume or a pool that has extents on a missing physical volume.
const HealthPartial = "partial"

// Volume is one logical volume. Without an id it is not ours.
type Volume struct {
	Name, ID, UUID string
	SizeBytes      int64
	// Pool is the thin pool that it is in; empty for a linear one.
	Pool string
	// Source is the volume that it was copied from, while that exists. A snapshot keeps the name in TagSource.
	Source   string
	Snapshot bool
	// New is true for a volume that was made empty and not used yet: what it holds is left over from others.
	New bool
	// Removing is true once its removal began: a part of what it held may be gone.
	Removing bool
	// Unzeroed is true for a volume that has to read as zero before anybody uses it, and does so up to ZeroedBytes only; FilesystemOnly for one
	// that is never shown raw, because nobody zeroed it.
	Unzeroed, FilesystemOnly bool
	ZeroedBytes              int64
	// TailOf is the id of the volume that grows by this one; empty for all others. A tail has no id.
	TailOf string
	// Extents are where a tail lies; others do not tell.
	Extents []Extents
	// Active is true when its device node exists, Open when something has that open.
	Active, Open bool
	// Suspended is true when a command was killed that changed its device: the device holds back its readers and writers, or does not have
	// the table yet that the command loaded.
	Suspended bool
	// Stale is true when its device leads to a disk that dropped off, even if LVM sees the disk again: nothing can be read there.
	Stale bool
	// Health says what is wrong with it; empty when it is healthy.
	Health      string
	CreatedUnix int64
	// DeviceID is the number of a thin volume in the metadata of its pool; zero when LVM does not tell. Numbers are used again. The transaction
	// before which the kernel made the volume tells it from an earlier one with that number.
	DeviceID, TransactionID int64
}

// Extents are some of a physical volume, one after the other.
type Extents struct {
	Path         string // of the device
	First, Count int64  // First is the number of the first one
}

// ToZero reports whether the volume is zeroed before anybody uses it. What one holds that is not new any more is its user's.
func (v Volume) ToZero() bool {
	return v.Unzeroed && v.Pool == "" && (v.TailOf != "" || v.ID != "" && v.New)
}

// Pool is one thin pool.
type Pool struct {
	Name, UUID string
	// Ours is true when it carries our tag.
	Ours                     bool
	SizeBytes, MetadataBytes int64
	// DataPermyriad and MetadataPermyriad are allocated, in hundredths of a percent.
	DataPermyriad, MetadataPermyriad int32
	// UsageUnknown is true while it is not known how much is allocated: the pool is not active. Both are zero then, and it may be full.
	UsageUnknown bool
	// VirtualBytes is the sum of the sizes of the volumes in it, Volumes their number.
	VirtualBytes int64
	Volumes      int
	// Active is true when its device exists.
	Active bool
	// Suspended and Stale are as those of a volume.
	Suspended, Stale bool
	// Health says what is wrong with it; empty when it is healthy.
	Health string
	// Damage says why nothing in it can be used: its metadata is damaged. Empty when nobody found that.
	Damage string
	// TransactionID counts its changes, and ChunkBytes is the size of its chunks. Zero when LVM does not tell.
	TransactionID, ChunkBytes int64
	// Kept are the names of the volumes that hold the metadata of the pool as it was before repairs, ordered.
	Kept []string
}

// Volume finds a volume by its name.
func (g Group) Volume(name string) (Volume, bool) {
	for _, v := range g.LogicalVolumes {
		if v.Name == name {
			return v, true
		}
	}
	return Volume{}, false
}

// Pool finds a thin pool by its name.
func (g Group) Pool(name string) (Pool, bool) {
	for _, p := range g.Pools {
		if p.Name == name {
			return p, true
		}
	}
	return Pool{}, false
}

// Named fills Volumes with the names of everything that keeps the group: all volumes, and pools that are not ours.
func (g Group) Named() Group {
	g.Volumes = nil
	for _, v := range g.LogicalVolumes {
		g.Volumes = append(g.Volumes, v.Name)
	}
	for _, p := range g.Pools {
		if !p.Ours {
			g.Volumes = append(g.Volumes, p.Name)
		}
	}
	slices.Sort(g.Volumes)
	return g
}
