package nodes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// constraint is a spread over domains that a pod requires.
type constraint struct {
	corev1.TopologySpreadConstraint
	selector labels.Selector
}

func constraintsOf(p *corev1.Pod) ([]constraint, bool) {
	var out []constraint
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			continue
		}
		s, ok := merged(p, c.LabelSelector, c.MatchLabelKeys, nil)
		if !ok {
			return nil, false
		}
		out = append(out, constraint{c, s})
	}
	return out, true
}

// spreads returns whether a pod on a node would keep all of its constraints, as the scheduler counts.
func (n Nodes) spreads(p *corev1.Pod, all []constraint, others []*corev1.Pod) func(at Node) bool {
	counts := make([]map[string]int, len(all))
	for i, c := range all {
		counts[i] = n.domains(p, c, all, others)
	}
	return func(at Node) bool {
		for i, c := range all {
			domain, ok := at.Labels[c.TopologyKey]
			if !ok {
				return false
			}
			self := 0
			if c.selector.Matches(labels.Set(p.Labels)) {
				self = 1
			}
			if counts[i][domain]+self-c.least(counts[i]) > int(c.MaxSkew) {
				return false
			}
		}
		return true
	}
}

// domains counts the pods that a constraint is about in each domain that takes part.
func (n Nodes) domains(p *corev1.Pod, c constraint, all []constraint, others []*corev1.Pod) map[string]int {
	out, part := map[string]int{}, map[string]bool{}
	for name, one := range n {
		if one.takesPart(p, name, c, all) {
			part[name] = true
			out[one.Labels[c.TopologyKey]] += 0
		}
	}
	for _, o := range others {
		if part[o.Spec.NodeName] && o.DeletionTimestamp.IsZero() && o.Namespace == p.Namespace && !c.selector.Empty() && c.selector.Matches(labels.Set(o.Labels)) {
			out[n[o.Spec.NodeName].Labels[c.TopologyKey]]++
		}
	}
	return out
}

// takesPart reports whether a node is in a domain of a constraint. One that lacks the label of any constraint is in none.
func (n Node) takesPart(p *corev1.Pod, name string, c constraint, all []constraint) bool {
	if slices.ContainsFunc(all, func(c constraint) bool { _, ok := n.Labels[c.TopologyKey]; return !ok }) {
		return false
	}
	if (c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor) && !n.selected(name, &p.Spec) {
		return false
	}
	honor := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	return !honor || !n.Closed && n.tolerated(p.Spec.Tolerations)
}

// least is the smallest count, and none while there are fewer domains than wanted.
func (c constraint) least(counts map[string]int) int {
	wanted := 1
	if c.MinDomains != nil {
		wanted = int(*c.MinDomains)
	}
	if len(counts) < wanted || len(counts) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(counts)))
}
