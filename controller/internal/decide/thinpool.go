package decide

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// ThinPoolSpec says what is wanted of a thin pool.
type ThinPoolSpec struct {
	// Group that it is in, and Owner, the UID of the Cluster in the tag of the group.
	Group, Owner string
	// UUID of the group; empty means any of that name. It is no part of what is wanted: a pool is wanted before its group exists.
	UUID string `json:"-"`
	Name string
	// SizeBytes, or Percent of the size of the group: exactly one of them.
	SizeBytes int64
	Percent   int32
	// ChunkBytes is LVM's own choice when 0.
	ChunkBytes int64
}

// ThinPool is one thin pool of ours.
type ThinPool struct {
	Group, Name string
	SizeBytes   int64
	// DataPermyriad and MetadataPermyriad are what of it is allocated, in hundredths of a percent.
	DataPermyriad, MetadataPermyriad int32
	// UsageUnknown is true while its agent cannot tell how much is allocated: both are 0 then, and the pool may be full.
	UsageUnknown bool
	// Damage says why nothing in it can be used, because its metadata is damaged, and DamagedVolumes names the volumes in it. Empty when its
	// agent found no damage.
	Damage         string
	DamagedVolumes []string
	// RepairDigest condenses what a repair of the pool would work on; empty when its agent does not repair it. KeptMetadata are the volumes that
	// hold its metadata as it was before repairs.
	RepairDigest string
	KeptMetadata []string
	// VirtualBytes is the sum of the sizes of the volumes in it.
	VirtualBytes int64
}

// Pool returns the thin pool of a name.
func (g Group) Pool(name string) (ThinPool, bool) {
	for _, p := range g.Pools {
		if p.Name == name {
			return p, true
		}
	}
	return ThinPool{}, false
}

// Usage returns the pool as a status shows it. Percents are rounded down, and left out while they are not known. before is what the status
// showed: a pool that was nearly full stays so until it has some room.
func (p ThinPool) Usage(before *v1alpha1.ThinPoolUsage) v1alpha1.ThinPoolUsage {
	u := v1alpha1.ThinPoolUsage{
		Name: p.Name, Size: *resource.NewQuantity(p.SizeBytes, resource.BinarySI),
		Provisioned: *resource.NewQuantity(p.VirtualBytes, resource.BinarySI), KeptMetadata: p.KeptMetadata,
	}
	was := before != nil && before.Name == p.Name && before.NearlyFull
	if p.UsageUnknown {
		u.NearlyFull = was
		return u
	}
	data, metadata := p.DataPermyriad/100, p.MetadataPermyriad/100
	most := max(data, metadata)
	u.DataPercent, u.MetadataPercent = &data, &metadata
	u.NearlyFull = most >= v1alpha1.ThinPoolWarnPercent || was && most >= v1alpha1.ThinPoolCalmPercent
	return u
}
