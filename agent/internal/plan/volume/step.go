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
	plan.Reason
}

// ActivateLV makes the device node of a volume or thin pool with that tag.
type ActivateLV struct {
	Group     plan.GroupRef
	Name, Tag string
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

// RemoveLV removes a volume with that tag, unless it is open.
type RemoveLV struct {
	Group     plan.GroupRef
	Name, Tag string
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
func (s RefreshLV) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s SettleLV) Touches() []string { return s.Group.Devices }

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

func (s RefreshLV) String() string { return fmt.Sprintf("resume %s/%s", s.Group.Name, s.Name) }

func (s SettleLV) String() string { return fmt.Sprintf("settle %s/%s", s.Group.Name, s.Name) }

func (s RemoveLV) String() string { return fmt.Sprintf("remove volume %s/%s", s.Group.Name, s.Name) }

func (s CreatePool) String() string {
	return fmt.Sprintf("create thin pool %s/%s of %d bytes", s.Group.Name, s.Name, s.SizeBytes)
}
