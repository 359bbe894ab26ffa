package decide

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// ThinPool is the thin pool that every host of a Cluster is to have: of a size in bytes, or of a share of the group in percent.
type ThinPool struct {
	Name      string
	SizeBytes int64
	Percent   int32
	// ChunkBytes of a new pool; the agent chooses when zero.
	ChunkBytes int64
}

// Pool is one thin pool that exists.
type Pool struct {
	Name      string
	SizeBytes int64
	// DataPermyriad and MetadataPermyriad are what is taken, in hundredths of a percent.
	DataPermyriad, MetadataPermyriad int32
	// VirtualBytes is the sum of the sizes of the volumes in it.
	VirtualBytes int64
}

// ThinPoolOf returns the thin pool that a spec asks for; nil when it asks for none.
func ThinPoolOf(lvm *v1alpha1.LVMSpec) *ThinPool {
	if lvm == nil || lvm.ThinPool == nil {
		return nil
	}
	spec := lvm.ThinPool
	p := &ThinPool{Name: v1alpha1.ThinPoolName}
	switch {
	case spec.Size != nil:
		p.SizeBytes = spec.Size.Value()
	case spec.Percent != nil:
		p.Percent = *spec.Percent
	default:
		p.Percent = v1alpha1.DefaultThinPoolPercent
	}
	if spec.ChunkSize != nil {
		p.ChunkBytes = spec.ChunkSize.Value()
	}
	return p
}

// Describe returns the pool for a person: "name (size)".
func (p ThinPool) Describe() string {
	if p.SizeBytes > 0 {
		return fmt.Sprintf("%s (%s)", p.Name, Bytes(p.SizeBytes))
	}
	return fmt.Sprintf("%s (%d %% of the group)", p.Name, p.Percent)
}

// Pool returns the thin pool of a name.
func (g Group) Pool(name string) (Pool, bool) {
	for _, p := range g.Pools {
		if p.Name == name {
			return p, true
		}
	}
	return Pool{}, false
}

// Usage returns the pool as it is shown in a status. Percents are rounded down.
func (p Pool) Usage() v1alpha1.ThinPoolUsage {
	return v1alpha1.ThinPoolUsage{
		Name: p.Name, Size: *resource.NewQuantity(p.SizeBytes, resource.BinarySI),
		Provisioned: *resource.NewQuantity(p.VirtualBytes, resource.BinarySI),
		DataPercent: p.DataPermyriad / 100, MetadataPercent: p.MetadataPermyriad / 100,
	}
}

// OverprovisionPercent returns the bound on the sum of the sizes in the pool in percent of its size. A ratio that is missing, or that
// the schema would not have let through, means no overprovisioning.
func OverprovisionPercent(spec *v1alpha1.ThinPoolSpec) int32 {
	const least, most = 100, 10000
	if spec == nil {
		return least
	}
	whole, fraction, _ := strings.Cut(spec.OverprovisionRatio, ".")
	if len(fraction) > 2 {
		return least
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 2-len(fraction)), 10, 32)
	if err != nil {
		return least
	}
	return int32(min(max(n, least), most))
}
