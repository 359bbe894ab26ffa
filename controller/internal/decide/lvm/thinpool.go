package lvm

import (
	"fmt"
	"strconv"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// poolOf returns the thin pool that a spec asks for, without group and owner; nil when it asks for none.
func poolOf(spec *v1alpha1.ThinPoolSpec) *decide.ThinPoolSpec {
	if spec == nil {
		return nil
	}
	p := &decide.ThinPoolSpec{Name: v1alpha1.ThinPoolName}
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

// describePool returns a wanted pool for a person: "name (size)".
func describePool(p decide.ThinPoolSpec) string {
	if p.SizeBytes > 0 {
		return fmt.Sprintf("%s (%s)", p.Name, decide.Bytes(p.SizeBytes))
	}
	return fmt.Sprintf("%s (%d %% of the group)", p.Name, p.Percent)
}

// overprovision returns the bound on the sum of the sizes in the pool in percent of its size. A ratio that is missing, or that the
// schema would have refused, means no overprovisioning.
func overprovision(spec *v1alpha1.ThinPoolSpec) int32 {
	const least, most = 100, 10000
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
