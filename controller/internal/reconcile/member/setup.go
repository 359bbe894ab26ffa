package member

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// SetupWithManager registers the reconciler. What the engine writes is no event for it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	kinds, err := kube.StorageKinds(mgr.GetScheme())
	if err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("member").
		For(&v1alpha1.Member{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	for _, kind := range kinds {
		b = b.Watches(kind, handler.EnqueueRequestsFromMapFunc(r.named), builder.WithPredicates(kube.ComesAndGoes))
	}
	return b.WithOptions(kube.Options(1)).Complete(r)
}

// named returns the Members that name a storage, whatever UID they name.
func (r *Reconciler) named(ctx context.Context, o client.Object) []reconcile.Request {
	s, ok := o.(v1alpha1.Storage)
	if !ok {
		return nil
	}
	var members v1alpha1.MemberList
	// The cache returns an error only while it is being set up, and then every Member is looked at anyway.
	if err := r.Client.List(ctx, &members, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		logf.FromContext(ctx).Error(err, "Failed to list Members")
		return nil
	}
	var requests []reconcile.Request
	for i := range members.Items {
		if m := &members.Items[i]; m.Spec.Of.Kind == s.StorageKind() && m.Spec.Of.Name == s.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: m.Name}})
		}
	}
	return requests
}
