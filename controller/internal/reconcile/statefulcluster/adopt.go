package statefulcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/stateful/adopt"
	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// takeOver adopts the pods that nobody controls and that are replicas of the StatefulCluster, with their claims. The API server itself is asked before, also whether the
// StatefulCluster is still there. It returns true when it wrote, or has to wait for the cache: the next pass goes on from there. One that cannot be adopted holds up no other.
func (r *Reconciler) takeOver(ctx context.Context, s *scope) (again bool, err error) {
	if len(s.takeovers) == 0 {
		return false, nil
	}
	if !s.confirmed {
		if again, err := r.confirm(ctx, s); err != nil || again {
			// What the cache says is known to be outdated.
			s.blind = true
			return again, err
		}
	}
	for _, t := range s.takeovers {
		switch err := r.takePod(ctx, s, t); {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			again = true
		case err != nil:
			s.trouble, s.retryAfter = troubleOf(v1alpha1.ReasonAdoptionRefused, err), blockedPause
			s.strays = append(s.strays, adopt.Stray{Pod: t.Pod.Name, Why: err.Error()})
		default:
			again = true
			r.announceTakeover(s, t.Pod)
		}
	}
	s.blind = s.blind || again
	return again, nil
}

// takePod makes a pod one of the StatefulCluster. The claims go first, and the pod last: what was written before the controller ends is found again, and until then no pod is
// made on these claims, since the pod has the name of the replica. It is written only if it is the very one that was read, and unchanged.
func (r *Reconciler) takePod(ctx context.Context, s *scope, t adopt.Takeover) error {
	logf.FromContext(ctx).V(1).Info("Adopting replica", "pod", t.Pod.Name)
	for _, c := range t.Claims {
		if err := r.take(ctx, s, c, record.Carried(c.Annotations[v1alpha1.AnnotationReplicaState])); err != nil {
			return err
		}
	}
	if t.Controlled {
		return nil
	}
	meta := map[string]any{
		"uid": t.Pod.UID, "resourceVersion": t.Pod.ResourceVersion, "ownerReferences": append(slices.Clone(t.Pod.OwnerReferences), s.plan.Owner()),
	}
	if state, ok := t.Pod.Annotations[v1alpha1.AnnotationReplicaState]; ok {
		// Without claims the record is on the pod.
		meta["annotations"] = map[string]string{v1alpha1.AnnotationReplicaState: record.Carried(state)}
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("adopt pod %s: %w", t.Pod.Name, err)
	}
	if err := r.Client.Patch(ctx, t.Pod, client.RawPatch(types.MergePatchType, patch), kube.FieldOwner); err != nil {
		return fmt.Errorf("adopt pod %s: %w", t.Pod.Name, err)
	}
	return nil
}

// adopt brings a replica back on claims that a person named, if one can be. It returns true when nothing is made in this pass: because one was adopted, or because
// what cannot be adopted now is waited for.
func (r *Reconciler) adopt(ctx context.Context, s *scope) (done bool, err error) {
	if len(s.cluster.Spec.Adopt) == 0 {
		return false, nil
	}
	// No cache has all pods: others than replicas may use a claim.
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(s.cluster.Namespace)); err != nil {
		return false, fmt.Errorf("list pods that may use claims to adopt: %w", err)
	}
	in := s.plan.Adopt()
	in.Claims, in.Users, in.Live = s.labelled, users(pods.Items), map[string]bool{}
	known := false
	for _, i := range s.identities {
		in.Live[i.Name] = i.Fate == ""
		known = known || i.Fate == "" && (i.Filled || i.Served)
	}
	choice := adopt.Choose(in)
	if choice.Identity == "" {
		if why := choice.Stops(known); why != "" {
			s.trouble, s.retryAfter = trouble{v1alpha1.ReasonAdoptionRefused, why}, blockedPause
			return true, nil
		}
		r.announceRefused(s, choice.Text())
		return false, nil
	}
	for _, c := range choice.Claims {
		if err := r.take(ctx, s, c, v1alpha1.ReplicaServed); err != nil {
			s.trouble = troubleOf(v1alpha1.ReasonAdoptionRefused, err)
			return true, err
		}
	}
	s.claims = s.plan.Naming().Of(s.labelled)
	s.gather()
	r.announceAdopted(s, choice.Claims[0])
	// Its pod is made in the next pass.
	s.retryAfter = kube.Again
	return true, nil
}

// users returns the pods that have claims, by the names of these. A pod that has ended has none any more.
func users(pods []corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, p := range pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				out[v.PersistentVolumeClaim.ClaimName] = p.Name
			}
		}
	}
	return out
}

// take puts on record that a claim is of a replica of the StatefulCluster again, and what this replica is.
func (r *Reconciler) take(ctx context.Context, s *scope, c *corev1.PersistentVolumeClaim, state string) error {
	_, err := kube.Patch(ctx, r.Client, c, func(c *corev1.PersistentVolumeClaim) {
		note(c, state)
		c.Annotations[v1alpha1.AnnotationAdopted] = string(s.cluster.UID)
		delete(c.Annotations, v1alpha1.AnnotationGivenUp)
		delete(c.Annotations, v1alpha1.AnnotationOrphaned)
		c.Labels[v1alpha1.LabelStatefulClusterUID] = string(s.cluster.UID)
		c.OwnerReferences = s.ownersOf(c)
	})
	return err
}

// follow takes a claim whose replica was adopted, if the controller ended before it came to it. One that is being deleted is left as it is.
func (r *Reconciler) follow(ctx context.Context, s *scope, i *record.Identity, c *corev1.PersistentVolumeClaim) (left bool, err error) {
	if !i.Adopted || c.Annotations[v1alpha1.AnnotationAdopted] == string(s.cluster.UID) {
		return false, nil
	}
	if !c.DeletionTimestamp.IsZero() {
		return true, nil
	}
	state := v1alpha1.ReplicaServed
	if c.Annotations[v1alpha1.AnnotationReplicaState] == v1alpha1.ReplicaFilled {
		// It was to be taken over with its pod, and had the data.
		state = v1alpha1.ReplicaFilled
	}
	return false, r.take(ctx, s, c, state)
}
