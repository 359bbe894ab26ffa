package nodes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/decide/stateful/topology"
)

// Takers returns the nodes that would take a pod, as far as its own rules say so: its node selector, its required node affinity, its tolerations, its required
// affinity and anti-affinity to the others that are there, its spread over them, and their anti-affinity to it. What cannot be understood takes nothing. Of each other node it says
// why not, as the rest of a sentence that begins with the node.
func (n Nodes) Takers(p *corev1.Pod, others []*corev1.Pod) (takers Nodes, why map[string]string) {
	takers, why = Nodes{}, map[string]string{}
	all, ok := rulesOf(p)
	if !ok {
		return takers, why
	}
	others = n.settled(others)
	spreads := n.spreads(p, all.spread, others)
	for name, one := range n {
		keeper := n.keeper(p, one, others)
		switch {
		case one.State != replica.NodeFine:
			why[name] = "does not serve"
		case one.Closed:
			why[name] = "is cordoned"
		case !one.selected(name, &p.Spec):
			why[name] = "is not what the node selector or the node affinity of the template asks for"
		case !one.tolerated(p.Spec.Tolerations):
			why[name] = "has a taint that the template does not tolerate"
		case n.repelled(all.apart, one, others):
			why[name] = "is kept away by the pod anti-affinity of the template"
		case keeper != nil:
			why[name] = fmt.Sprintf("is kept away by the pod anti-affinity of pod %s/%s", keeper.Namespace, keeper.Name)
		case !n.attracted(p, all.near, one, others):
			why[name] = "lacks the pods that the pod affinity of the template asks for"
		case !spreads(one):
			why[name] = "is kept away by the topology spread of the template"
		default:
			takers[name] = one
		}
	}
	return takers, why
}

// selected reports whether the node has what a pod requires of it.
func (n Node) selected(name string, p *corev1.PodSpec) bool {
	for key, value := range p.NodeSelector {
		if have, ok := n.Labels[key]; !ok || have != value {
			return false
		}
	}
	if p.Affinity == nil || p.Affinity.NodeAffinity == nil || p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return topology.Matches(p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, name, n.Labels)
}

// tolerated reports whether every taint that keeps pods away is tolerated.
func (n Node) tolerated(by []corev1.Toleration) bool {
	return !slices.ContainsFunc(n.Taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(by, func(t corev1.Toleration) bool { return tolerates(t, taint) })
	})
}

// tolerates is as the scheduler has it. Operators that compare numbers are not known here, and tolerate nothing.
func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value
}
