package decide

import "time"

// VolumeSpec says which logical volume is meant, and what is wanted of it.
type VolumeSpec struct {
	// Group that it is in, and Owner, the UID of the Cluster in the tag of the group.
	Group, Owner string
	// GroupUUID is that of the group that is meant; empty means any of that name.
	GroupUUID string
	// Name in LVM, and the ID in its tag.
	Name, ID string
	// SizeBytes that it has at least.
	SizeBytes int64
	// ThinPool that it is made in; empty for a linear volume.
	ThinPool string
	// Source is the volume or snapshot of the same group that is copied; empty for a volume without content.
	Source string
	// Snapshot makes a snapshot of the source.
	Snapshot bool
	// OverprovisionPercent bounds what is given out of the pool; 0 does not.
	OverprovisionPercent int32
	// Zero says what of a linear volume is zeroed before it is shown.
	Zero Zero
	// OnlyUnused lets a volume be removed only while it is Unused. Agents that tell of no unused volume do not know it.
	OnlyUnused bool
	// Discard has the disks discard a linear volume before it is removed. Agents that do not know it remove the volume without.
	Discard bool
}

// Zero says what of a linear volume reads as zero before the volume is shown.
type Zero int

// What is zeroed.
const (
	// ZeroNothing shows what others wrote.
	ZeroNothing Zero = iota
	// ZeroAll zeroes the volume, and everything that it grows by.
	ZeroAll
	// ZeroRaw is for a volume with a filesystem: what is never shown raw is not zeroed.
	ZeroRaw
)

// Zeroing is how far a volume, or what it grows by, is zeroed.
type Zeroing struct {
	// Volume is its name in LVM.
	Volume string
	// SizeBytes are zeroed in the end, ZeroedBytes are now.
	SizeBytes, ZeroedBytes int64
}

// Volume is one logical volume or snapshot of ours.
type Volume struct {
	Group, Name string
	// GroupUUID is that of its group, as the agent that made it told; empty in lists, and of agents that do not tell it.
	GroupUUID string
	// ID of its tag.
	ID        string
	SizeBytes int64
	// ThinPool is empty for a linear volume.
	ThinPool string
	// Source that it was copied from, while that exists; of a snapshot for good.
	Source string
	// Snapshot is true for a snapshot, Active while it has a device, Open while something uses that.
	Snapshot, Active, Open bool
	// Unused is true for a volume that was made empty, and that nobody used yet. It is false where the agent does not tell.
	Unused bool
	// Health is what is wrong with it; empty when nothing is.
	Health string
	// Created is when it was made; zero when that is not known.
	Created time.Time
}
