package plan

import "fmt"

// GroupRef says in which group a step on a volume works. Its tag is looked at again by the tool that performs the step.
type GroupRef struct {
	Name, Tag string
	Devices   []string
}

// CreateLV makes a volume: a copy when it has a source, thin when it has a pool, else linear. The name has to be free.
type CreateLV struct {
	Group        GroupRef
	Name         string
	Tags         []string
	SizeBytes    int64
	Pool, Source string
	Snapshot     bool
	Reason       string
}

// ExtendLV makes a volume as large as given, or a pool with its metadata. It never makes anything smaller.
type ExtendLV struct {
	Group GroupRef
	Name  string
	// SizeBytes of the volume, or of the data of a pool.
	SizeBytes int64
	// MetadataBytes of a pool; left as it is when zero.
	MetadataBytes int64
	Reason        string
}

// ActivateLV makes the device node of a volume with that tag.
type ActivateLV struct {
	Group             GroupRef
	Name, Tag, Reason string
}

// SettleLV takes TagNew off a volume with that tag.
type SettleLV struct {
	Group             GroupRef
	Name, Tag, Reason string
}

// DeactivateLV takes the device node of a pool with that tag away, unless it is open.
type DeactivateLV struct {
	Group             GroupRef
	Name, Tag, Reason string
}

// RemoveLV removes a volume with that tag, unless it is open.
type RemoveLV struct {
	Group             GroupRef
	Name, Tag, Reason string
}

// CreatePool makes a thin pool.
type CreatePool struct {
	Group                                GroupRef
	Name                                 string
	Tags                                 []string
	SizeBytes, MetadataBytes, ChunkBytes int64
	Reason                               string
}

// RemovePool removes an inactive thin pool with that tag that holds no volume.
type RemovePool struct {
	Group             GroupRef
	Name, Tag, Reason string
}

// Why the volume is made.
func (s CreateLV) Why() string { return s.Reason }

// Why the volume grows.
func (s ExtendLV) Why() string { return s.Reason }

// Why the volume is activated.
func (s ActivateLV) Why() string { return s.Reason }

// Why the volume is not new any more.
func (s SettleLV) Why() string { return s.Reason }

// Why the volume is deactivated.
func (s DeactivateLV) Why() string { return s.Reason }

// Why the volume goes.
func (s RemoveLV) Why() string { return s.Reason }

// Why the pool is made.
func (s CreatePool) Why() string { return s.Reason }

// Why the pool goes.
func (s RemovePool) Why() string { return s.Reason }

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

func (s SettleLV) String() string { return fmt.Sprintf("settle %s/%s", s.Group.Name, s.Name) }

func (s DeactivateLV) String() string { return fmt.Sprintf("deactivate %s/%s", s.Group.Name, s.Name) }

func (s RemoveLV) String() string { return fmt.Sprintf("remove volume %s/%s", s.Group.Name, s.Name) }

func (s CreatePool) String() string {
	return fmt.Sprintf("create thin pool %s/%s of %d bytes", s.Group.Name, s.Name, s.SizeBytes)
}

func (s RemovePool) String() string {
	return fmt.Sprintf("remove thin pool %s/%s", s.Group.Name, s.Name)
}
