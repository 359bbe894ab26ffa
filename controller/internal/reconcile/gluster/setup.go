package gluster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// SetupWithManager registers the reconciler. What runs is looked at in pauses, as the pool is: nothing that happens there makes an event.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, kube.DeletionBegins, kube.FinalizersChanged))
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.GlusterCluster{}, changed).
		Watches(&v1alpha1.GlusterNode{}, handler.EnqueueRequestsFromMapFunc(clusterOf), changed).
		WithOptions(kube.Options(8)).
		Complete(r)
}

// clusterOf is the GlusterCluster that a node is of, whether it exists or not.
func clusterOf(_ context.Context, o client.Object) []reconcile.Request {
	n, ok := o.(*v1alpha1.GlusterNode)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: n.Namespace, Name: n.Spec.Cluster}}}
}
