package statefulcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/adopt"
	"quarry.storage/quarry/controller/internal/decide/stateful/blueprint"
	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// observe reads the world afresh: from the cache, or from the API server itself.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	from := r.reader(s, r.Workloads)
	ours := []client.ListOption{client.InNamespace(s.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelStatefulCluster: s.cluster.Name}}
	var pods corev1.PodList
	if err := from.List(ctx, &pods, ours...); err != nil {
		return fmt.Errorf("list pods of statefulcluster %s: %w", s.cluster.Name, err)
	}
	s.labelledPods = pods.Items
	s.pods = slices.DeleteFunc(slices.Clone(pods.Items), func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, s.cluster) })
	var claims corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &claims, ours...); err != nil {
		return fmt.Errorf("list claims of statefulcluster %s: %w", s.cluster.Name, err)
	}
	s.labelled = claims.Items
	s.claims = s.plan.Naming().Of(s.labelled)
	s.gather()
	s.lookAtStrays()
	if err := errors.Join(r.readNodes(ctx, s), r.readMembers(ctx, s)); err != nil {
		return err
	}
	return r.assess(ctx, s)
}

// lookAtStrays says which pods are adopted, and what the others mean for what is made beside them.
func (s *scope) lookAtStrays() {
	unowned, run := record.Unowned(s.labelledPods)
	s.abandoned = s.plan.Naming().Abandoned(s.labelled, unowned)
	in := s.plan.Adopt()
	in.Claims, in.Pods = s.labelled, s.labelledPods
	s.takeovers, s.strays = adopt.Pods(in)
	s.unowned = run
	s.standing = adopt.Standing(s.takeovers, s.strays, func(identity string) bool {
		i := s.identity(identity)
		return i != nil && i.Fate == ""
	})
}

// confirm observes again, at the API server itself: what a person took back a moment ago does not count, and what came back is not given up. It returns
// true when what is wanted has changed and the cache has to catch up first.
func (r *Reconciler) confirm(ctx context.Context, s *scope) (again bool, err error) {
	s.confirmed = true
	live := &v1alpha1.StatefulCluster{}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(s.before), live)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		s.blind = true
		return false, fmt.Errorf("get statefulcluster %s: %w", s.before.Name, err)
	case !same(s.before, live):
		return true, nil
	}
	if err := r.observe(ctx, s); err != nil {
		s.blind = true
		return false, err
	}
	return false, nil
}

// same reports whether two looks at a StatefulCluster want the same.
func same(a, b *v1alpha1.StatefulCluster) bool {
	return a.UID == b.UID && a.Generation == b.Generation && b.DeletionTimestamp.IsZero() && maps.Equal(a.Annotations, b.Annotations)
}

// reader reads what is watched anyway: from a cache, and before something is done from the API server itself.
func (r *Reconciler) reader(s *scope, cache client.Reader) client.Reader {
	if s.confirmed {
		return r.Live
	}
	return cache
}

// assess puts together what the decision is made on.
func (r *Reconciler) assess(ctx context.Context, s *scope) error {
	s.input = replica.Input{
		Now: s.now, Desired: s.plan.Desired(), Revision: s.plan.Revision, Grace: s.plan.Grace, NodeGrace: s.plan.NodeGrace,
		MinReady: time.Duration(s.cluster.Spec.MinReadySeconds) * time.Second,
		Futile:   int(s.cluster.Status.FutileReplacements),
		Blocked:  s.kept, Unrecorded: record.Unrecorded(record.Orphans(s.claims, s.identities)), Unowned: s.unowned, Standing: s.standing,
		Undecided: s.plan.Naming().Undecided(s.labelled, s.abandoned, s.cluster.Spec.Adopt),
	}
	s.plan.Update(&s.input)
	for _, i := range s.identities {
		one := replicaOf(s.plan.Name(i.Name), i, s.plan.SyncedWhen())
		one.Patchable = i.Pod != nil && i.Pod.Annotations[v1alpha1.AnnotationTemplateBase] == s.plan.Base
		if i.Pod == nil {
			one.Occupied = i.Occupier(s.labelledPods, one.Name, string(s.cluster.UID))
		}
		if err := r.place(ctx, s, i, &one); err != nil {
			return err
		}
		s.input.Replicas = append(s.input.Replicas, one)
	}
	// Whoever is within reach is lost for no node. To look for nodes that do not exist takes all claims of replicas.
	if slices.ContainsFunc(s.input.Replicas, replica.Replica.OutOfReach) {
		missing, err := r.missing(ctx, s)
		if err != nil {
			return err
		}
		s.input.Blackout, s.input.Vanished = s.nodes.Blackout(len(missing)), missing
	}
	s.remember()
	return nil
}

// replicaOf turns an identity into what is decided on.
func replicaOf(name string, i *record.Identity, syncedWhen string) replica.Replica {
	out := replica.Replica{Name: name, Identity: i.Name, Filled: i.Filled, Served: i.Served, Fate: i.Fate, GivenUp: i.GivenUp, Claims: i.Whole, Phase: replica.Absent}
	if p := i.Pod; p != nil {
		out.Created = p.CreationTimestamp.Time
		ofPod(&out, p)
		if c := conditionOf(p, corev1.PodConditionType(syncedWhen)); c != nil {
			out.InSync = c.Status == corev1.ConditionTrue
		}
	}
	for _, c := range i.Claims {
		if at := c.CreationTimestamp.Time; out.Created.IsZero() || at.Before(out.Created) {
			out.Created = at
		}
	}
	return out
}

// ofPod adds what the pod of an identity says.
func ofPod(out *replica.Replica, p *corev1.Pod) {
	out.Revision, out.Terminating = p.Labels[appsv1.ControllerRevisionHashLabelKey], !p.DeletionTimestamp.IsZero()
	out.PendingSince, out.ReadinessSince = p.CreationTimestamp.Time, p.CreationTimestamp.Time
	out.Placed, out.Phase = p.Spec.NodeName != "", replica.Pending
	out.Busy = slices.ContainsFunc(p.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	// One that cannot be read is no wish: as with a ReplicaSet it counts as 0.
	out.Cost, _ = strconv.Atoi(p.Annotations[corev1.PodDeletionCost])
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
		return
	}
	defer ofUpdate(out, p)
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
}

// ofUpdate corrects what a pod says that was changed in place: it is ready no earlier than that, and not while a container of before runs.
func ofUpdate(out *replica.Replica, p *corev1.Pod) {
	at, still := blueprint.Updating(p)
	if at.After(out.ReadinessSince) {
		out.ReadinessSince = at
	}
	if still && out.Readiness == replica.Ready {
		out.Readiness = replica.NotReady
	}
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
