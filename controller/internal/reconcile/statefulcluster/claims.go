package statefulcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// maxOrphans bounds the list in the status.
const maxOrphans = 100

// write puts on record what an identity is: on its claims, or on its pod when it has none. A claim that is gone needs no record.
func (r *Reconciler) write(ctx context.Context, s *scope, i *record.Identity) error {
	if len(i.Claims) == 0 && i.Pod != nil && i.Pod.DeletionTimestamp.IsZero() {
		_, err := kube.Patch(ctx, r.Client, i.Pod, func(p *corev1.Pod) { note(p, i.State()) })
		return client.IgnoreNotFound(err)
	}
	for _, c := range i.Claims {
		if left, err := r.follow(ctx, s, i, c); err != nil || left {
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			continue
		}
		_, err := kube.Patch(ctx, r.Client, c, func(c *corev1.PersistentVolumeClaim) {
			note(c, i.State())
			if !i.GivenUp.IsZero() && c.Annotations[v1alpha1.AnnotationGivenUp] == "" {
				c.Annotations[v1alpha1.AnnotationGivenUp] = i.GivenUp.UTC().Format(time.RFC3339)
			}
			if len(i.Made) > 0 {
				c.Annotations[v1alpha1.AnnotationClaims] = strings.Join(i.Made, ",")
			}
			c.OwnerReferences = s.ownersOf(c)
			if i.Pod != nil {
				delete(c.Labels, v1alpha1.LabelReserved)
			}
		})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func note(o client.Object, state string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationReplicaState] = state
	o.SetAnnotations(annotations)
}

// mark puts on record that a claim was of a pod that nobody controlled: once the pod is gone, nothing else would tell. One that was adopted in this pass is the
// StatefulCluster's own.
func (r *Reconciler) mark(ctx context.Context, s *scope, c *corev1.PersistentVolumeClaim) error {
	if c.Annotations[v1alpha1.AnnotationOrphaned] != "" || c.Labels[v1alpha1.LabelStatefulClusterUID] == string(s.cluster.UID) {
		return nil
	}
	_, err := kube.Patch(ctx, r.Client, c, func(c *corev1.PersistentVolumeClaim) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[v1alpha1.AnnotationOrphaned] = s.now.UTC().Format(time.RFC3339)
	})
	return client.IgnoreNotFound(err)
}

// settleClaims brings what is on record up to date, and the owners of claims to what the retention policy says. Then it deletes the claims that the
// policy names, unless the spec has a fault.
func (r *Reconciler) settleClaims(ctx context.Context, s *scope) error {
	sum := replica.Summarize(s.input)
	for _, i := range s.identities {
		i.Filled = i.Filled || slices.Contains(sum.Full, i.Name)
		i.Served = i.Served || slices.Contains(sum.Served, i.Name)
	}
	var errs []error
	for _, i := range s.identities {
		errs = append(errs, r.write(ctx, s, i))
	}
	for _, c := range s.abandoned {
		errs = append(errs, r.mark(ctx, s, c))
	}
	for _, c := range record.Orphans(s.claims, s.identities) {
		_, err := kube.Patch(ctx, r.Client, c, func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = s.ownersOf(c) })
		errs = append(errs, client.IgnoreNotFound(err))
	}
	if len(s.faults) == 0 {
		errs = append(errs, r.dispose(ctx, s))
	}
	err := errors.Join(errs...)
	if err != nil && kube.Denied(err) {
		// Replicas run on without a record. Somebody has to bind the rights, and is told.
		if s.trouble.reason == "" {
			s.trouble = troubleOf(v1alpha1.ReasonAccessDenied, err)
		}
		s.retryAfter = blockedPause
		return nil
	}
	return err
}

// dispose deletes the claims that the policy names. What a cache says is confirmed before.
func (r *Reconciler) dispose(ctx context.Context, s *scope) error {
	ids, after := replica.Dispose(s.input, s.plan.Policy())
	s.decision.After = soonest(s.decision.After, after)
	if len(ids) == 0 {
		return nil
	}
	if !s.confirmed {
		if again, err := r.confirm(ctx, s); err != nil || again {
			s.retryAfter = kube.Again
			return err
		}
	}
	ids, _ = replica.Dispose(s.input, s.plan.Policy())
	for _, id := range ids {
		for _, c := range s.identity(id).Claims {
			if !c.DeletionTimestamp.IsZero() || s.controlledByAnother(c) {
				continue
			}
			// Unchanged: a controller that is late deletes nothing that was adopted since.
			if err := kube.DeleteUnchanged(ctx, r.Client, c); err != nil {
				s.trouble = troubleOf(v1alpha1.ReasonRemoveFailed, err)
				return fmt.Errorf("delete claim of a replica that was given up: %w", err)
			}
			now := metav1.NewTime(s.now)
			c.DeletionTimestamp = &now
		}
	}
	return nil
}

// soonest of two spans of which zero means never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// controlledByAnother reports whether somebody else made a claim its own. Such a claim is not deleted: it is the other's to decide on.
func (s *scope) controlledByAnother(c *corev1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOf(c)
	return owner != nil && owner.UID != s.cluster.UID && (owner.Kind != "Pod" || owner.APIVersion != "v1")
}

// ownersOf says who owns a claim: the StatefulCluster, if claims go with it and nobody else controls it. In earlier versions a pod owned the claims that were deleted with it; no
// claim goes with its pod now.
func (s *scope) ownersOf(c *corev1.PersistentVolumeClaim) []metav1.OwnerReference {
	owners := slices.DeleteFunc(slices.Clone(c.OwnerReferences), func(o metav1.OwnerReference) bool {
		return o.UID == s.cluster.UID || o.Kind == "Pod" && o.APIVersion == "v1"
	})
	if s.plan.WhenDeleted() == v1alpha1.DeleteClaims && !s.controlledByAnother(c) {
		owners = append(owners, s.plan.Owner())
	}
	return owners
}

// orphans returns the names of the claims whose replica is gone for good, the newest first, and how many there are.
func (s *scope) orphans() (names []string, count int) {
	orphans := record.Orphans(s.claims, s.identities)
	for _, c := range orphans[:min(len(orphans), maxOrphans)] {
		names = append(names, c.Name)
	}
	return names, len(orphans)
}
