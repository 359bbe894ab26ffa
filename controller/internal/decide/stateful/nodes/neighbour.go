package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Query asks for pods that the rules of another pod are about. An empty namespace means all of them.
type Query struct {
	Namespace string
	Selector  labels.Selector
}

// rule is what a pod requires of the pods in one domain, such as a node or a zone.
type rule struct {
	// key is the label of nodes whose values are the domains.
	key string
	// namespaces of the pods that it is about; nil means all.
	namespaces []string
	selector   labels.Selector
}

func (r rule) about(p *corev1.Pod) bool {
	return (r.namespaces == nil || slices.Contains(r.namespaces, p.Namespace)) && r.selector.Matches(labels.Set(p.Labels))
}

// rules are all that a pod requires of other pods.
type rules struct {
	near, apart []rule
	spread      []constraint
}

// Neighbours returns what has to be known of other pods before Takers can tell which nodes would take a pod. Those of its own namespace may keep it away by rules of theirs, which
// are about their own namespace unless they say otherwise. It returns false if the pod has a rule that cannot be
// understood here, such as one about namespaces with certain labels: then no node is known to take it.
func Neighbours(p *corev1.Pod) ([]Query, bool) {
	all, ok := rulesOf(p)
	if !ok {
		return nil, false
	}
	out := []Query{{p.Namespace, labels.Everything()}}
	for _, r := range slices.Concat(all.near, all.apart) {
		if r.namespaces == nil {
			out = append(out, Query{Selector: r.selector})
		}
		for _, ns := range r.namespaces {
			if ns != p.Namespace {
				out = append(out, Query{ns, r.selector})
			}
		}
	}
	return out, true
}

func rulesOf(p *corev1.Pod) (out rules, ok bool) {
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		if out.near, ok = required(p, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution); !ok {
			return rules{}, false
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		if out.apart, ok = required(p, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution); !ok {
			return rules{}, false
		}
	}
	out.spread, ok = constraintsOf(p)
	return out, ok
}

func required(p *corev1.Pod, terms []corev1.PodAffinityTerm) ([]rule, bool) {
	var out []rule
	for _, t := range terms {
		s := t.NamespaceSelector
		if s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
			return nil, false
		}
		selector, ok := merged(p, t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys)
		if !ok {
			return nil, false
		}
		r := rule{key: t.TopologyKey, selector: selector}
		if s == nil {
			if r.namespaces = t.Namespaces; len(r.namespaces) == 0 {
				r.namespaces = []string{p.Namespace}
			}
		}
		out = append(out, r)
	}
	return out, true
}

// merged is a selector with the labels of the pod that match and mismatch keys name, as the API server merges them when the pod is made.
func merged(p *corev1.Pod, s *metav1.LabelSelector, match, mismatch []string) (labels.Selector, bool) {
	if s != nil {
		s = s.DeepCopy()
		for _, keys := range []struct {
			of       []string
			operator metav1.LabelSelectorOperator
		}{{match, metav1.LabelSelectorOpIn}, {mismatch, metav1.LabelSelectorOpNotIn}} {
			for _, key := range keys.of {
				if value, ok := p.Labels[key]; ok {
					s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: keys.operator, Values: []string{value}})
				}
			}
		}
	}
	out, err := metav1.LabelSelectorAsSelector(s)
	return out, err == nil
}

// settled are the pods that take part: they were scheduled to a node that exists, and have not ended.
func (n Nodes) settled(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		_, exists := n[p.Spec.NodeName]
		return !exists || Ended(p)
	})
}

// Ended reports whether a pod has ended: it takes no room, and no rule is about it.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// repelled reports whether a required anti-affinity of a pod keeps it from a node on which, or beside which, others are.
func (n Nodes) repelled(apart []rule, at Node, others []*corev1.Pod) bool {
	return slices.ContainsFunc(apart, func(r rule) bool { return n.has(r.key, at, others, r.about) })
}

// keeper returns the first pod whose required anti-affinity keeps another one from the domain that a node is in, such as its zone; nil without one. A rule that cannot be
// understood keeps it away.
func (n Nodes) keeper(p *corev1.Pod, at Node, others []*corev1.Pod) *corev1.Pod {
	i := slices.IndexFunc(others, func(o *corev1.Pod) bool {
		if o.Spec.Affinity == nil || o.Spec.Affinity.PodAntiAffinity == nil {
			return false
		}
		return slices.ContainsFunc(o.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool {
			domain, in := at.Labels[t.TopologyKey]
			there, ok := n[o.Spec.NodeName].Labels[t.TopologyKey]
			if !in || !ok || domain != there {
				return false
			}
			apart, ok := required(o, []corev1.PodAffinityTerm{t})
			return !ok || apart[0].about(p)
		})
	})
	if i < 0 {
		return nil
	}
	return others[i]
}

// attracted reports whether the required affinity of a pod lets it go to a node: in each of its domains is one that all terms are about. The first of a group that
// is about itself goes anywhere.
func (n Nodes) attracted(p *corev1.Pod, near []rule, at Node, others []*corev1.Pod) bool {
	about := func(o *corev1.Pod) bool { return !slices.ContainsFunc(near, func(r rule) bool { return !r.about(o) }) }
	first := about(p) && !slices.ContainsFunc(others, func(o *corev1.Pod) bool {
		return about(o) && slices.ContainsFunc(near, func(r rule) bool { _, ok := n[o.Spec.NodeName].Labels[r.key]; return ok })
	})
	return !slices.ContainsFunc(near, func(r rule) bool {
		_, ok := at.Labels[r.key]
		return !ok || !first && !n.has(r.key, at, others, about)
	})
}

// has reports whether a pod that a test holds for is in the domain of a node. A node without the label is in none.
func (n Nodes) has(key string, at Node, others []*corev1.Pod, test func(*corev1.Pod) bool) bool {
	domain, ok := at.Labels[key]
	return ok && slices.ContainsFunc(others, func(o *corev1.Pod) bool {
		there, ok := n[o.Spec.NodeName].Labels[key]
		return ok && there == domain && test(o)
	})
}
