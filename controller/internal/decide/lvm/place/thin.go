package place

import (
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Thin is a thin pool that volumes are made in.
type Thin struct {
	// Pool is its name; empty when volumes are linear.
	Pool string
	// Percent of its size that may be given out; 0 when there is no bound.
	Percent int32
}

// thinOf returns the thin pool of a Cluster, for what comes without the parameters of a class: snapshots, and larger sizes.
func thinOf(c *v1alpha1.Cluster) Thin {
	if c.Spec.LVM == nil || c.Spec.LVM.ThinPool == nil {
		return Thin{}
	}
	return Thin{Pool: v1alpha1.ThinPoolName, Percent: lvm.Of(c).OverprovisionPercent}
}
