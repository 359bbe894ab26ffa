// Package nodes tells from Node objects whether nodes can be expected to serve a replica. It knows nothing of clients.
package nodes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/decide/stateful/topology"
)

// Node is what matters of a node.
type Node struct {
	// Labels are shared with the object that they were read from.
	Labels map[string]string
	// State of the node: fine, or why nothing that runs there counts.
	State replica.NodeState
	// Closed: it takes no new pods.
	Closed bool
	// Taints that keep pods away that do not tolerate them, but for those that only repeat the state.
	Taints []corev1.Taint
	// Allocatable is what pods can have there; shared with the object that it was read from.
	Allocatable corev1.ResourceList
}

// told are the taints that say, a while later, what State and Closed say anyway.
var told = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable}

// Of reads a Node. One that never said whether it is ready is as silent as one that says it no longer.
func Of(n *corev1.Node) Node {
	out := Node{Labels: n.Labels, State: replica.NodeUnreachable, Closed: n.Spec.Unschedulable, Allocatable: n.Status.Allocatable}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.Contains(told, t.Key) {
			out.Taints = append(out.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		switch c.Status {
		case corev1.ConditionTrue:
			out.State = replica.NodeFine
		case corev1.ConditionFalse:
			out.State = replica.NodeUnready
		}
	}
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
		out.State = replica.NodeShutDown
	}
	return out
}

// Same reports whether nothing that matters differs between two looks at a node.
func Same(a, b Node) bool {
	return a.State == b.State && a.Closed == b.Closed && maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Taints, b.Taints) &&
		maps.EqualFunc(a.Allocatable, b.Allocatable, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

// Nodes by name.
type Nodes map[string]Node

// Blackout reports whether more than half of all nodes serve nothing: then the fault is more likely in what they have in common. Nodes that
// do not exist, and that something still names, are among them.
func (n Nodes) Blackout(missing int) bool {
	silent := missing
	for _, one := range n {
		if one.State != replica.NodeFine {
			silent++
		}
	}
	return silent*2 > len(n)+missing
}

// Missing names the node that a volume is kept on if there is none that it can be used on; empty while there is one. made is the node that the volume was made for; it is
// empty where that is not known.
func (n Nodes) Missing(made string, s *corev1.NodeSelector) string {
	for name, one := range n {
		if topology.Matches(s, name, one.Labels) {
			return ""
		}
	}
	if _, exists := n[made]; made != "" && !exists {
		return made
	}
	return topology.Kept(s)
}

// Reach tells how the best node is of those that a volume can be used on. Without one that exists it is NodeGone.
func (n Nodes) Reach(s *corev1.NodeSelector) replica.NodeState {
	best, found := replica.NodeGone, false
	for _, name := range slices.Sorted(maps.Keys(n)) {
		one := n[name]
		if !topology.Matches(s, name, one.Labels) {
			continue
		}
		state := one.State
		if state == replica.NodeFine && one.Closed {
			state = replica.NodeClosed
		}
		if state == replica.NodeFine {
			return state
		}
		if !found || state == replica.NodeClosed {
			best, found = state, true
		}
	}
	return best
}
