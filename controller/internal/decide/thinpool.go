package decide

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// ThinPoolOf returns the thin pool that a spec asks for on every host, without group and owner; nil when it asks for none.
func ThinPoolOf(lvm *v1alpha1.LVMSpec) *ThinPoolSpec {
	if lvm == nil || lvm.ThinPool == nil {
		return nil
	}
	spec := lvm.ThinPool
	p := &ThinPoolSpec{Name: v1alpha1.ThinPoolName}
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
func (p ThinPoolSpec) Describe() string {
	if p.SizeBytes > 0 {
		return fmt.Sprintf("%s (%s)", p.Name, Bytes(p.SizeBytes))
	}
	return fmt.Sprintf("%s (%d %% of the group)", p.Name, p.Percent)
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

// Usage returns the pool as it is shown in a status. Percents are rounded down.
func (p ThinPool) Usage() v1alpha1.ThinPoolUsage {
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
