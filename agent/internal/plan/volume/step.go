package volume

import (
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
)

// CreateLV makes a volume: a copy when it has a source, thin when it has a pool, else linear. The name has to be free.
type CreateLV struct {
	Group        plan.GroupRef
	Name         string
	Tags         []string
	SizeBytes    int64
	Pool, Source string
	Snapshot     bool
	plan.Reason
}

// ExtendLV makes a volume as large as given, or a pool with its metadata. It never makes anything smaller.
type ExtendLV struct {
	Group plan.GroupRef
	Name  string
	// SizeBytes of the volume, or of the data of a pool.
	SizeBytes int64
	// MetadataBytes of a pool; left as it is when zero.
	MetadataBytes int64
	// Over are the only extents that it may take; any when there are none.
	Over []plan.Extents
	plan.Reason
}

// ActivateLV makes the device node of a volume or thin pool with that tag.
type ActivateLV struct {
	Group     plan.GroupRef
	Name, Tag string
	plan.Reason
}

// DeactivateLV takes the device node of a volume or thin pool with that tag away, unless it is open.
type DeactivateLV struct {
	Group     plan.GroupRef
	Name, Tag string
	plan.Reason
}

// ActivatePool makes the device of a thin pool with that tag, unless its metadata is damaged.
type ActivatePool struct {
	Group     plan.GroupRef
	Name, Tag string
	// Holds is true when volumes are in it.
	Holds bool
	plan.Reason
}

// RefreshLV lets go of the device of a volume with that tag, which a killed command left suspended, or with a table that does not count yet.
type RefreshLV struct {
	Group     plan.GroupRef
	Name, Tag string
	plan.Reason
}

// SettleLV takes TagNew off a volume with that tag.
type SettleLV struct {
	Group     plan.GroupRef
	Name, Tag string
	plan.Reason
}

// ZeroLV writes zeroes over a part of a volume that nobody uses. Only this step and DiscardLV change what a volume holds that exists.
type ZeroLV struct {
	// Group and GroupUUID, Name and UUID tell the device: one with other UUIDs is left alone.
	Group, GroupUUID, Name, UUID string
	// From and To are offsets in bytes; what is written lies between them.
	From, To int64
	plan.Reason
}

// DiscardLV has the disks forget a part of a volume that nobody uses and that is removed next. What the part reads as afterwards is not known.
type DiscardLV struct {
	// Group and GroupUUID, Name and UUID tell the device: one with other UUIDs is left alone.
	Group, GroupUUID, Name, UUID string
	// From and To are offsets in bytes; what is discarded lies between them.
	From, To int64
	plan.Reason
}

// MarkZeroed writes down how far a volume with that tag is zeroed: it replaces one tag by another, or takes it off.
type MarkZeroed struct {
	Group     plan.GroupRef
	Name, Tag string
	Was, Now  string
	plan.Reason
}

// MarkRemoving puts TagRemoving on a volume with that tag. Nobody has the volume open, as was just seen.
type MarkRemoving struct {
	Group     plan.GroupRef
	Name, Tag string
	plan.Reason
}

// RemoveLV removes a volume with that tag, unless it is open.
type RemoveLV struct {
	Group     plan.GroupRef
	Name, Tag string
	// Afresh says that the step follows from more than the command looks at: it is decided on what was just seen, not on what is remembered.
	Afresh bool
	plan.Reason
}

// CreatePool makes a thin pool.
type CreatePool struct {
	Group                                plan.GroupRef
	Name                                 string
	Tags                                 []string
	SizeBytes, MetadataBytes, ChunkBytes int64
	plan.Reason
}

// Touches the devices of the group.
func (s CreateLV) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s ExtendLV) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s ActivateLV) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s DeactivateLV) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s ActivatePool) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s RefreshLV) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s SettleLV) Touches() []string { return s.Group.Devices }

// Touches nothing that the group's devices carry: what is written lies in the volume.
func (s ZeroLV) Touches() []string { return nil }

// Touches nothing that the group's devices carry: what is discarded lies in the volume.
func (s DiscardLV) Touches() []string { return nil }

// Touches the devices of the group.
func (s MarkZeroed) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s MarkRemoving) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s RemoveLV) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s CreatePool) Touches() []string { return s.Group.Devices }

func (s CreateLV) String() string {
	switch {
	case s.Snapshot:
		return fmt.Sprintf("create snapshot %s/%s of %s", s.Group.Name, s.Name, s.Source)
	case s.Source != "":
		return fmt.Sprintf("create volume %s/%s as a copy of %s", s.Group.Name, s.Name, s.Source)
	case s.Pool != "":
		return fmt.Sprintf("create volume %s/%s of %d bytes in pool %s", s.Group.Name, s.Name, s.SizeBytes, s.Pool)
	}
	return fmt.Sprintf("create volume %s/%s of %d bytes", s.Group.Name, s.Name, s.SizeBytes)
}

func (s ExtendLV) String() string {
	return fmt.Sprintf("extend %s/%s to %d bytes", s.Group.Name, s.Name, s.SizeBytes)
}

func (s ActivateLV) String() string { return fmt.Sprintf("activate %s/%s", s.Group.Name, s.Name) }

func (s DeactivateLV) String() string { return fmt.Sprintf("deactivate %s/%s", s.Group.Name, s.Name) }

func (s ActivatePool) String() string {
	return fmt.Sprintf("activate pool %s/%s", s.Group.Name, s.Name)
}

func (s RefreshLV) String() string { return fmt.Sprintf("resume %s/%s", s.Group.Name, s.Name) }

func (s SettleLV) String() string { return fmt.Sprintf("settle %s/%s", s.Group.Name, s.Name) }

func (s ZeroLV) String() string {
	return fmt.Sprintf("zero %s/%s from byte %d to %d", s.Group, s.Name, s.From, s.To)
}

func (s DiscardLV) String() string {
	return fmt.Sprintf("discard %s/%s from byte %d to %d", s.Group, s.Name, s.From, s.To)
}

func (s MarkZeroed) String() string {
	return fmt.Sprintf("replace tag %q of %s/%s by %q", s.Was, s.Group.Name, s.Name, s.Now)
}

func (s MarkRemoving) String() string {
	return fmt.Sprintf("mark %s/%s as one that is removed", s.Group.Name, s.Name)
}

func (s RemoveLV) String() string { return fmt.Sprintf("remove volume %s/%s", s.Group.Name, s.Name) }

func (s CreatePool) String() string {
	return fmt.Sprintf("create thin pool %s/%s of %d bytes", s.Group.Name, s.Name, s.SizeBytes)
}
