package statefulcluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/decide/stateful/topology"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// node is what matters of a node.
type node struct {
	labels map[string]string
	state  replica.NodeState
	since  time.Time
}

// nodes by name.
type nodes map[string]node

// blackout reports whether more than half of all nodes are unreachable: then the fault is more likely in the network than in the nodes.
func (n nodes) blackout() bool {
	silent := 0
	for _, one := range n {
		if one.state == replica.NodeUnreachable {
			silent++
		}
	}
	return silent*2 > len(n)
}

func (r *Reconciler) readNodes(ctx context.Context, s *scope) error {
	var list corev1.NodeList
	if err := r.Workloads.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	s.nodes = make(nodes, len(list.Items))
	for i := range list.Items {
		s.nodes[list.Items[i].Name] = factsOf(&list.Items[i])
	}
	return nil
}

func factsOf(n *corev1.Node) node {
	out := node{labels: n.Labels}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			out.state, out.since = replica.NodeUnreachable, c.LastTransitionTime.Time
		}
	}
	return out
}

// nodeOf tells how the node of a pod is: of the one that it runs on, else of those that its volumes keep it on.
func (r *Reconciler) nodeOf(ctx context.Context, s *scope, p *corev1.Pod) (replica.NodeState, time.Time, error) {
	name := p.Spec.NodeName
	if name == "" {
		return r.nodeOfVolumes(ctx, s, p)
	}
	if known, ok := s.nodes[name]; ok {
		return known.state, known.since, nil
	}
	if !s.confirmed {
		return replica.NodeGone, s.now, nil
	}
	// The cache of nodes may be behind that of pods. A pod is removed by force when its node is gone, so this is asked for.
	found := &corev1.Node{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return replica.NodeGone, s.now, nil
	case err != nil:
		return replica.NodeFine, s.now, fmt.Errorf("get node %s: %w", name, err)
	}
	known := factsOf(found)
	return known.state, known.since, nil
}

// nodeOfVolumes returns whether a pod that is not scheduled can be: a volume that is bound to nodes that do not answer, or do not exist,
// keeps it from every other one. Labels of a node may be late, so even a node that is gone counts as unreachable for a while.
func (r *Reconciler) nodeOfVolumes(ctx context.Context, s *scope, p *corev1.Pod) (replica.NodeState, time.Time, error) {
	since := p.CreationTimestamp.Time
	if c := conditionOf(p, corev1.PodScheduled); c != nil && c.LastTransitionTime.After(since) {
		since = c.LastTransitionTime.Time
	}
	for _, c := range s.claims {
		if c.Labels[v1alpha1.LabelIdentity] != p.Labels[v1alpha1.LabelIdentity] || c.Spec.VolumeName == "" {
			continue
		}
		if c.Status.Phase == corev1.ClaimLost {
			return replica.NodeUnreachable, since, nil
		}
		v := &corev1.PersistentVolume{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: c.Spec.VolumeName}, v)
		if client.IgnoreNotFound(err) != nil {
			return replica.NodeFine, since, fmt.Errorf("get persistentvolume %s: %w", c.Spec.VolumeName, err)
		}
		if err == nil && !s.reachable(v) {
			return replica.NodeUnreachable, since, nil
		}
	}
	return replica.NodeFine, since, nil
}

// reachable reports whether a node that answers can use a volume.
func (s *scope) reachable(v *corev1.PersistentVolume) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	for name, n := range s.nodes {
		if n.state == replica.NodeFine && topology.Matches(v.Spec.NodeAffinity.Required, name, n.labels) {
			return true
		}
	}
	return false
}
