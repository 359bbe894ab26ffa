package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// Fits reports whether a node is known to have room for a pod beside those that are there, and none of these keeps it away. Lower priorities are not made to leave.
func (n Node) Fits(p *corev1.Pod, there []*corev1.Pod) bool {
	there = slices.DeleteFunc(slices.Clone(there), Ended)
	used := map[corev1.ResourceName]*resource.Quantity{corev1.ResourcePods: resource.NewQuantity(int64(len(there)), resource.DecimalSI)}
	for _, o := range there {
		for name, q := range helper.PodRequests(o, helper.PodResourcesOptions{UseStatusResources: true}) {
			if used[name] == nil {
				used[name] = &resource.Quantity{}
			}
			used[name].Add(q)
		}
	}
	need := helper.PodRequests(p, helper.PodResourcesOptions{})
	need[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	for name, q := range need {
		wanted := !q.IsZero()
		if used[name] != nil {
			q.Add(*used[name])
		}
		// What the node does not tell of is not known to be there.
		if have, told := n.Allocatable[name]; wanted && (!told || have.Cmp(q) < 0) {
			return false
		}
	}
	return !slices.ContainsFunc(there, func(o *corev1.Pod) bool { return n.repels(o, p) })
}

// repels reports whether a pod on this node lets none like another one be beside it. A rule that cannot be understood lets none.
func (n Node) repels(there, p *corev1.Pod) bool {
	if there.Spec.Affinity == nil || there.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	apart, ok := required(there, there.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	return !ok || slices.ContainsFunc(apart, func(r rule) bool {
		_, in := n.Labels[r.key]
		return in && r.about(p)
	})
}
