package blueprint

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Update puts into the input of a decision what the spec says about how replicas are changed, and about when they have the data.
func (b *Blueprint) Update(in *replica.Input) {
	spec := &b.owner.Spec
	in.OnDelete = spec.UpdateStrategy.Type == v1alpha1.OnDelete
	in.Declared = spec.SyncedWhen != nil
	in.Discard = b.Policy().Scaled
	in.Surge, in.Unavailable = b.surge, b.unavailable
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		in.Partition = int(*r.Partition)
	}
}

// SyncedWhen is the type of the pod condition that says that a replica has the data; empty when none does.
func (b *Blueprint) SyncedWhen() string {
	if b.owner.Spec.SyncedWhen == nil {
		return ""
	}
	return b.owner.Spec.SyncedWhen.ConditionType
}

// bounds reads how many more and how many fewer replicas there may be during a change. By default there is one more; where the spec says how many
// may be unavailable, there is none.
func (b *Blueprint) bounds(fault func(string, string, ...any)) {
	const path = "spec.updateStrategy.rollingUpdate."
	r := b.owner.Spec.UpdateStrategy.RollingUpdate
	if b.surge = 1; r == nil || r.MaxSurge == nil && r.MaxUnavailable == nil {
		return
	}
	scale := func(name string, v *intstr.IntOrString, up bool) int {
		if v == nil {
			return 0
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(v, b.Desired(), up)
		if err != nil || n < 0 {
			fault(path+name, "%q is no number of replicas and no percentage", v.String())
			return 0
		}
		return n
	}
	b.surge, b.unavailable = scale("maxSurge", r.MaxSurge, true), scale("maxUnavailable", r.MaxUnavailable, false)
	if written := r.MaxUnavailable; written != nil && b.unavailable == 0 && written.Type == intstr.String && written.StrVal != "0%" {
		// As in apps/v1: a percentage of few replicas is one at least.
		b.unavailable = 1
	}
	if b.surge == 0 && b.unavailable == 0 {
		fault(path+"maxSurge", "with maxUnavailable 0 it cannot be 0, too: no replica could be changed")
	}
}

// WithoutUse lists the fields that are set and have no meaning here.
func WithoutUse(spec *v1alpha1.StatefulClusterSpec) []string {
	var out []string
	if spec.Ordinals != nil {
		out = append(out, "spec.ordinals (replicas are not numbered)")
	}
	if spec.PodManagementPolicy != "" {
		out = append(out, "spec.podManagementPolicy (replicas have no order and are made one after another)")
	}
	return out
}
