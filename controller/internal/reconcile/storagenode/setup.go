package storagenode

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// SetupWithManager registers the reconciler. changed tells the names of nodes whose agent reported something new.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changed <-chan string) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, IndexNode, nodeOf)
	if err != nil {
		return err
	}
	// Of nodes only it matters that they come and go; kubelets write to them all the time.
	lifecycle := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.StorageNode{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(lifecycle)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return requests(nodeOf(o))
		})).
		WatchesRawSource(source.Func(nodes(changed))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(r)
}

func nodeOf(o client.Object) []string {
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return []string{p.Spec.NodeName}
	}
	return nil
}

func requests(nodes []string) []reconcile.Request {
	var out []reconcile.Request
	for _, n := range nodes {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: n}})
	}
	return out
}

// nodes turns changes of nodes into requests.
func nodes(changed <-chan string) func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case node, open := <-changed:
					if !open {
						return
					}
					q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: node}})
				}
			}
		}()
		return nil
	}
}
