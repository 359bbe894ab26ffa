package statefulcluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// annotationSelectedNode is on a claim whose pod a scheduler has placed: that identity is used.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

// observe reads the world afresh: from the cache, or from the API server itself.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	from := r.Workloads
	if s.confirmed {
		from = r.Live
	}
	ours := []client.ListOption{client.InNamespace(s.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelStatefulCluster: s.cluster.Name}}
	var pods corev1.PodList
	if err := from.List(ctx, &pods, ours...); err != nil {
		return fmt.Errorf("list pods of statefulcluster %s: %w", s.cluster.Name, err)
	}
	s.setPods(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, s.cluster) }))
	var claims corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &claims, ours...); err != nil {
		return fmt.Errorf("list claims of statefulcluster %s: %w", s.cluster.Name, err)
	}
	s.claims = slices.DeleteFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
		return c.Labels[v1alpha1.LabelStatefulClusterUID] != string(s.cluster.UID)
	})
	if err := r.readNodes(ctx, s); err != nil {
		return err
	}
	return r.assess(ctx, s)
}

// assess puts together what the decision is made on.
func (r *Reconciler) assess(ctx context.Context, s *scope) error {
	s.input = replica.Input{
		Now: s.now, Desired: s.plan.Desired(), Revision: s.plan.Revision,
		OnDelete: s.cluster.Spec.UpdateStrategy.Type == v1alpha1.OnDelete,
		Grace:    s.plan.Grace, NodeGrace: s.plan.NodeGrace,
		MinReady: time.Duration(s.cluster.Spec.MinReadySeconds) * time.Second,
		Futile:   int(s.cluster.Status.FutileReplacements),
		Blackout: s.nodes.blackout(),
		Reserved: s.reserved(),
	}
	for i := range s.pods {
		one := replicaOf(&s.pods[i])
		var err error
		if one.Node, one.NodeSince, err = r.nodeOf(ctx, s, &s.pods[i]); err != nil {
			return err
		}
		s.input.Replicas = append(s.input.Replicas, one)
	}
	return nil
}

// reserved returns the identities whose claims were made and whose pod was not.
func (s *scope) reserved() []string {
	var out []string
	for _, c := range s.claims {
		identity := c.Labels[v1alpha1.LabelIdentity]
		if s.isReserved(&c) && s.podOf(identity) == nil {
			out = append(out, identity)
		}
	}
	return out
}

func (s *scope) isReserved(c *corev1.PersistentVolumeClaim) bool {
	return c.Labels[v1alpha1.LabelReserved] != "" && c.DeletionTimestamp.IsZero() && c.Annotations[annotationSelectedNode] == ""
}

// replicaOf turns a pod into what is decided on.
func replicaOf(p *corev1.Pod) replica.Replica {
	out := replica.Replica{
		Name: p.Name, Identity: p.Labels[v1alpha1.LabelIdentity], Revision: p.Labels[appsv1.ControllerRevisionHashLabelKey],
		Created: p.CreationTimestamp.Time, Terminating: !p.DeletionTimestamp.IsZero(),
		ReadinessSince: p.CreationTimestamp.Time,
	}
	switch p.Status.Phase {
	case corev1.PodRunning:
		out.Phase = replica.Running
	case corev1.PodSucceeded, corev1.PodFailed:
		out.Phase = replica.Finished
	case corev1.PodUnknown:
		out.Phase, out.Readiness = replica.Running, replica.Unknown
	}
	ready := conditionOf(p, corev1.PodReady)
	if ready == nil {
		return out
	}
	if since := ready.LastTransitionTime.Time; since.After(out.ReadinessSince) {
		out.ReadinessSince = since
	}
	switch ready.Status {
	case corev1.ConditionTrue:
		out.Readiness = replica.Ready
	case corev1.ConditionUnknown:
		out.Readiness = replica.Unknown
	default:
		// A pod is not ready from the moment it is scheduled, but its time to start begins when its containers do.
		if since := started(p); since.After(out.ReadinessSince) {
			out.ReadinessSince = since
		}
	}
	return out
}

// started is when the last container of a pod was started for the first time, as far as the kubelet still tells: only the last start
// and the one before are kept, so containers that were restarted more often say nothing.
func started(p *corev1.Pod) time.Time {
	var last time.Time
	for _, c := range p.Status.ContainerStatuses {
		var at time.Time
		switch {
		case c.RestartCount == 0 && c.State.Running != nil:
			at = c.State.Running.StartedAt.Time
		case c.RestartCount == 1 && c.LastTerminationState.Terminated != nil:
			at = c.LastTerminationState.Terminated.StartedAt.Time
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
