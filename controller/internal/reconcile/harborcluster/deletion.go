package harborcluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// disown takes the owner reference off all data.
func (r *Reconciler) disown(ctx context.Context, s *scope) error {
	holders, secrets := harbor.Data(s.cluster)
	// Secrets first: data is never left without them.
	for _, ref := range append(secrets, holders...) {
		have, err := r.mine(ctx, s, ref)
		if err != nil {
			return err
		}
		if have == nil {
			continue
		}
		rest, owned := harbor.Disowned(s.cluster, have)
		if !owned {
			continue
		}
		if _, err := kube.Patch(ctx, r.Client, have, func(o *unstructured.Unstructured) { o.SetOwnerReferences(rest) }); err != nil {
			return err
		}
		logf.FromContext(ctx).Info("Let child go", "kind", ref.GetKind(), "name", ref.GetName())
	}
	return nil
}

// end carries out the deletion policy.
func (r *Reconciler) end(ctx context.Context, c *v1alpha1.HarborCluster) (ctrl.Result, error) {
	// What is cached may be the policy of a moment ago, and what is removed does not come back.
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if c.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(c, v1alpha1.FinalizerHarbor) {
		// The process before may have ended right here.
		return kube.Retry(ctx, ctrl.Result{}, r.witnesses().Dismiss(ctx, client.ObjectKeyFromObject(c)))
	}
	s := newScope(c)
	done, waits, err := r.carryOut(ctx, s)
	if apierrors.IsForbidden(err) {
		state := failure(err)
		waits, err = state.Message, nil
		over, failed := r.namespaceEnds(ctx, c)
		if over {
			// Everything in the namespace goes, and the right to remove it may have gone first.
			done, waits = notice.Note{}, ""
		}
		err = failed
	}
	if err != nil || waits != "" {
		return r.hold(ctx, s, waits, err)
	}
	if done.Reason != "" {
		kube.Emit(r.Events, c, done)
	}
	err = kube.RemoveFinalizer(ctx, r.Client, s.cluster, v1alpha1.FinalizerHarbor)
	if err == nil {
		r.released.Delete(c.UID)
		// Not before: until then its word counts.
		err = r.witnesses().Dismiss(ctx, client.ObjectKeyFromObject(c))
	}
	return kube.Retry(ctx, ctrl.Result{}, err)
}

// hold tells what the deletion waits for.
func (r *Reconciler) hold(ctx context.Context, s *scope, waits string, err error) (ctrl.Result, error) {
	if err != nil {
		waits = err.Error()
	}
	after := s.cluster.DeepCopy()
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDeleting, Message: waits, ObservedGeneration: after.Generation,
	})
	if _, failed := kube.WriteStatus(ctx, r.Client, s.before, after); err == nil {
		err = failed
	}
	return kube.Retry(ctx, ctrl.Result{RequeueAfter: retry}, err)
}

// carryOut keeps or removes the data. done tells a person of it; waits says what is waited for.
func (r *Reconciler) carryOut(ctx context.Context, s *scope) (done notice.Note, waits string, err error) {
	kept := notice.Note{
		Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonHarborKept, Action: "Delete",
		Message: "The database, the bucket and the Secrets that open them stay. A HarborCluster of this name takes them back.",
	}
	if s.cluster.Spec.DeletionPolicy != v1alpha1.HarborDelete {
		return kept, "", r.release(ctx, s)
	}
	how, err := r.deletionOf(ctx, s)
	if err != nil {
		return notice.Note{}, "", err
	}
	switch how {
	case harbor.DeletionOrphans:
		return kept, "", nil
	case harbor.DeletionUnknown:
		return notice.Note{}, "Nobody can tell whether it is deleted with --cascade=orphan, because the HarborWitness " + harbor.Witness(s.cluster).Name +
			" is not there as it was made, or Kubernetes did not know its kind yet: nothing is removed. Set spec.deletionPolicy to Retain, and it ends and keeps all. " +
			"To remove all after that, make a HarborCluster of this name again with spec.deletionPolicy Delete, wait until its conditions " + v1alpha1.ConditionDatabaseReady +
			", " + v1alpha1.ConditionCacheReady + " and " + v1alpha1.ConditionStorageReady + " are True, and delete it.", nil
	}
	waits, err = r.purge(ctx, s)
	return notice.Note{
		Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonHarborRemoved, Action: "Delete",
		Message: "The database, the bucket, their volumes and the Secrets that open them are removed.",
	}, waits, err
}

// release lets all data go once more: an earlier version may have run in between.
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	err := r.disown(ctx, s)
	if !apierrors.IsForbidden(err) {
		return err
	}
	// Secrets cannot be read, what holds data can. Where nothing does, there is nothing that they open.
	holders, _ := harbor.Data(s.cluster)
	there, failed := r.all(ctx, s, holders)
	if failed != nil {
		return failed
	}
	for _, o := range there {
		if _, owned := harbor.Disowned(s.cluster, o); owned {
			return err
		}
	}
	if _, sure := r.released.Load(s.cluster.UID); !sure && len(there) > 0 {
		// An earlier version may have given a Secret an owner and ended before it came to the data: that would stay, with nothing to open it.
		return err
	}
	return nil
}

// deletionOf tells how the HarborCluster is being deleted.
func (r *Reconciler) deletionOf(ctx context.Context, s *scope) (harbor.Deletion, error) {
	witness, err := r.witnesses().Recorded(ctx, s.cluster)
	if err != nil {
		return harbor.DeletionUnknown, err
	}
	known, err := r.witnesses().Known(ctx, s.cluster, witness)
	if err != nil {
		return harbor.DeletionUnknown, err
	}
	how := harbor.DeletionOf(s.cluster, witness, known)
	if how != harbor.DeletionUnknown {
		return how, nil
	}
	if over, err := r.namespaceEnds(ctx, s.cluster); err != nil || over {
		// The witness may have gone with everything else in the namespace.
		return harbor.DeletionRemoves, err
	}
	return harbor.DeletionUnknown, nil
}

// decide writes down that the data is removed, and which children with volumes are ours, before the first is removed: their operators name volumes
// by the name of a child only, and whose a child was cannot be seen once it is gone. The record is in the status: who may edit HarborClusters
// cannot write there.
func (r *Reconciler) decide(ctx context.Context, s *scope) error {
	if s.cluster.Status.Removal != nil {
		return nil
	}
	var holders []*unstructured.Unstructured
	for _, v := range harbor.VolumesOf(s.cluster) {
		holders = append(holders, v.Holder)
	}
	owned, err := r.all(ctx, s, holders)
	if err != nil {
		return err
	}
	s.cluster.Status.Removal = harbor.RemovalOf(owned)
	_, err = kube.WriteStatus(ctx, r.Client, s.before, s.cluster)
	s.before = s.cluster.DeepCopy()
	return err
}

// purge removes the children, then their volumes, and the Secrets last: whatever is still there can be opened.
func (r *Reconciler) purge(ctx context.Context, s *scope) (waits string, err error) {
	if err := r.decide(ctx, s); err != nil {
		return "", err
	}
	holders, secrets := harbor.Data(s.cluster)
	left, err := r.all(ctx, s, append(harbor.Users(s.cluster), holders...))
	if err != nil {
		return "", err
	}
	if len(left) > 0 {
		return waitFor(left), r.drop(ctx, left)
	}
	volumes, err := r.volumes(ctx, s)
	if err != nil {
		return "", err
	}
	for _, v := range volumes {
		w := &unstructured.Unstructured{}
		w.SetAPIVersion("apps/v1")
		w.SetKind("StatefulSet")
		w.SetName(v.StatefulSet)
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.cluster.Namespace, Name: v.StatefulSet}, w)
		if err == nil {
			return waitFor([]*unstructured.Unstructured{w}) + " Its operator removes it; delete it yourself if that does not run any more.", nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("get statefulset %s: %w", v.StatefulSet, err)
		}
	}
	if waits, err := r.dropVolumes(ctx, s, volumes); err != nil || waits != "" {
		return waits, err
	}
	left, err = r.all(ctx, s, secrets)
	if err != nil {
		return "", err
	}
	return "", r.drop(ctx, left)
}

// volumes returns the volumes to remove: of children that were ours, and whose name nobody else took since.
func (r *Reconciler) volumes(ctx context.Context, s *scope) ([]harbor.Volumes, error) {
	var ours []harbor.Volumes
	for _, v := range harbor.Removable(s.cluster) {
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(v.Holder), v.Holder.DeepCopy())
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			ours = append(ours, v)
		case err != nil:
			return nil, fmt.Errorf("get %s %s: %w", v.Holder.GetKind(), v.Holder.GetName(), err)
		}
	}
	return ours, nil
}

// dropVolumes deletes the claims of the children, and waits until they are gone.
func (r *Reconciler) dropVolumes(ctx context.Context, s *scope, volumes []harbor.Volumes) (waits string, err error) {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.Live.List(ctx, claims, client.InNamespace(s.cluster.Namespace)); err != nil {
		return "", fmt.Errorf("list persistentvolumeclaims: %w", err)
	}
	var names []string
	for _, v := range volumes {
		for i := range claims.Items {
			claim := &claims.Items[i]
			if !v.Has(claim) {
				continue
			}
			names = append(names, claim.Name)
			if claim.DeletionTimestamp == nil {
				if err := kube.Delete(ctx, r.Client, claim); err != nil {
					return "", err
				}
				logf.FromContext(ctx).Info("Removed volume", "claim", claim.Name)
			}
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return "Waiting until these volumes are removed: " + strings.Join(names, ", ") + ".", nil
}

// namespaceEnds reports whether the namespace itself is being deleted.
func (r *Reconciler) namespaceEnds(ctx context.Context, c *v1alpha1.HarborCluster) (bool, error) {
	n := &corev1.Namespace{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: c.Namespace}, n); err != nil {
		return false, fmt.Errorf("get namespace %s: %w", c.Namespace, err)
	}
	return n.DeletionTimestamp != nil, nil
}

// waitFor says that objects must be gone first.
func waitFor(objects []*unstructured.Unstructured) string {
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	return "Waiting until these are removed: " + strings.Join(names, ", ") + "."
}
