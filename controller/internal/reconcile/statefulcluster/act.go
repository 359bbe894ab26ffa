package statefulcluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/statefulcluster/gauge"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// trial is the identity of a replica that is only tried out: it makes the API server say the same each time.
const trial = "0000000000000000"

const (
	// blockedPause is when to ask again to remove a replica when the API server does not say, and to make one that rights are missing for.
	blockedPause = 10 * time.Second
	// refusedPause is when to try again what the API server says cannot be.
	refusedPause = time.Minute
)

// act carries out the decision.
func (r *Reconciler) act(ctx context.Context, s *scope) error {
	switch s.decision.Action {
	case replica.Create:
		return r.create(ctx, s)
	case replica.GiveUp:
		return r.giveUp(ctx, s)
	case replica.Update:
		return r.update(ctx, s)
	case replica.Remove:
		return r.remove(ctx, s)
	}
	return nil
}

// troubleOf says why an action failed. Missing rights have a reason of their own: somebody has to bind them, and is told which.
func troubleOf(reason string, err error) trouble {
	if !kube.Denied(err) {
		return trouble{reason, err.Error()}
	}
	return trouble{
		v1alpha1.ReasonAccessDenied,
		"The controller needs the ClusterRole quarry-statefulcluster in this namespace, see docs/statefulcluster.md: " + err.Error(),
	}
}

// create makes the claims of an identity, then its pod. Neither may exist before, and neither is changed later: so both are created and not
// applied. A dry run comes first: when the API server refuses a part, nothing is made.
func (r *Reconciler) create(ctx context.Context, s *scope) error {
	if s.decision.Identity == "" {
		if done, err := r.adopt(ctx, s); err != nil || done {
			return err
		}
	}
	if err := r.tryOut(ctx, s); err != nil {
		s.trouble = troubleOf(v1alpha1.ReasonCreateFailed, err)
		if s.retryAfter = refusedPause; kube.Denied(err) {
			s.retryAfter = blockedPause
		}
		return nil
	}
	identity := s.decision.Identity
	if identity == "" {
		identity = r.Identity()
	}
	logf.FromContext(ctx).V(1).Info("Creating replica", "identity", identity, "reason", s.decision.Reason)
	pod, err := r.make(ctx, s, identity)
	if err != nil {
		s.trouble = troubleOf(v1alpha1.ReasonCreateFailed, err)
		return err
	}
	s.gather()
	if pod != nil {
		r.announceCreated(s, pod)
	}
	return nil
}

// make returns the pod that it made; nil when the identity has one and only lacked a claim.
func (r *Reconciler) make(ctx context.Context, s *scope, identity string) (*corev1.Pod, error) {
	known := s.identity(identity)
	for _, c := range s.plan.Claims(identity) {
		if known != nil && known.Adopted {
			// Without it the claim would count as one that is still to be adopted.
			c.Annotations[v1alpha1.AnnotationAdopted] = string(s.cluster.UID)
		}
		err := r.Client.Create(ctx, c, kube.FieldOwner)
		if apierrors.IsAlreadyExists(err) && identity == s.decision.Identity {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create claim %s: %w", c.Name, err)
		}
		s.claims = append(s.claims, *c)
	}
	if known != nil && known.Pod != nil {
		return nil, nil
	}
	pod := s.plan.Pod(identity)
	if err := r.Client.Create(ctx, pod, kube.FieldOwner); err != nil {
		return nil, fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	s.pods = append(s.pods, *pod)
	return pod, nil
}

// tryOut asks the API server whether it would take a replica. Only a clear no counts: what admits a pod may not be able to try out.
func (r *Reconciler) tryOut(ctx context.Context, s *scope) error {
	var objects []client.Object
	for _, c := range s.plan.Claims(trial) {
		objects = append(objects, c)
	}
	objects = append(objects, s.plan.Pod(trial))
	for _, o := range objects {
		if err := r.Client.Create(ctx, o, kube.FieldOwner, client.DryRunAll); apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return fmt.Errorf("try to create %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// update changes a pod in place. Its kubelet ends the containers whose image changed and starts them again.
func (r *Reconciler) update(ctx context.Context, s *scope) error {
	i := s.identity(s.decision.Identity)
	if i == nil || i.Pod == nil {
		return nil
	}
	logf.FromContext(ctx).V(1).Info("Changing replica in place", "pod", i.Pod.Name)
	if _, err := kube.Patch(ctx, r.Client, i.Pod, func(p *corev1.Pod) { s.plan.InPlace(p, s.now) }); err != nil {
		s.trouble = troubleOf(v1alpha1.ReasonRemoveFailed, err)
		return err
	}
	return nil
}

// giveUp puts on record that an identity is given up. Its pod may not answer: it is seen to later, and holds nothing up.
func (r *Reconciler) giveUp(ctx context.Context, s *scope) error {
	i := s.identity(s.decision.Identity)
	if i == nil {
		return nil
	}
	logf.FromContext(ctx).V(1).Info("Giving up replica", "replica", s.decision.Victim, "reason", s.decision.Reason)
	s.ends(i)
	if err := r.write(ctx, s, i); err != nil {
		s.trouble = troubleOf(v1alpha1.ReasonRemoveFailed, err)
		return err
	}
	r.gone(s, s.plan.Pod(i.Name))
	return nil
}

// remove evicts the pod, so that disruption budgets are kept. On a node that is gone no kubelet would end it: such a pod is deleted at once. What
// is given up goes on record afterwards: while a budget says no, nothing is.
func (r *Reconciler) remove(ctx context.Context, s *scope) error {
	i := s.identity(s.decision.Identity)
	if i == nil || i.Pod == nil {
		return nil
	}
	pod := i.Pod
	logf.FromContext(ctx).V(1).Info("Removing replica", "pod", pod.Name, "reason", s.decision.Reason)
	var err error
	if s.decision.Force {
		err = r.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	} else {
		err = r.evict(ctx, pod)
	}
	switch {
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		s.keep(pod.Name, err)
		return nil
	case client.IgnoreNotFound(err) != nil:
		err = fmt.Errorf("remove pod %s: %w", pod.Name, err)
		s.trouble = troubleOf(v1alpha1.ReasonRemoveFailed, err)
		return err
	}
	now := metav1.NewTime(s.now)
	pod.DeletionTimestamp = &now
	if first := s.decision.Fate != "" && i.Fate == ""; first {
		s.ends(i)
		r.gone(s, pod)
	}
	return r.write(ctx, s, i)
}

// ends notes the fate of an identity, and when, if its claims may go some day for their age or number.
func (s *scope) ends(i *record.Identity) {
	if i.Fate = s.decision.Fate; s.decision.Spare {
		i.GivenUp = s.now.Truncate(time.Second)
	}
}

// gone tells that an identity was given up.
func (r *Reconciler) gone(s *scope, pod *corev1.Pod) {
	if s.decision.Reason == v1alpha1.ReasonReplicaUnhealthy {
		s.cluster.Status.FutileReplacements++
	}
	if replaced(s.decision.Reason) {
		gauge.Replaced(types.NamespacedName{Namespace: pod.Namespace, Name: s.cluster.Name}, s.decision.Reason)
	}
	r.announceRemoved(s, pod)
}

// keep notes that a budget keeps a pod.
func (s *scope) keep(name string, err error) {
	if s.kept == nil {
		s.kept = map[string]bool{}
	}
	s.kept[name] = true
	s.blocked = fmt.Sprintf("Replica %s is not removed now: %s.", name, budgetOf(err))
	s.retryAfter = blockedPause
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		s.retryAfter = time.Duration(seconds) * time.Second
	}
}

// budgetOf returns what the API server says about the budget that holds an eviction up, with its name if the API server gives it.
func budgetOf(err error) string {
	text := err.Error()
	if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok && cause.Message != "" {
		text = cause.Message
	}
	return strings.TrimRight(text, ".")
}

func (r *Reconciler) evict(ctx context.Context, pod *corev1.Pod) error {
	return r.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}
