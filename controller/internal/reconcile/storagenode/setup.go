package storagenode

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// SetupWithManager registers the reconciler. recorded is a cache of GlusterNodes alone (kube.NewGlusterNodeCache). changed tells the names of nodes whose agent reported something new.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, recorded cache.Cache, changed <-chan string) error {
	r.Recorded = recorded
	if err := agentpod.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	kinds, err := kube.StorageKinds(mgr.GetScheme())
	if err != nil {
		return err
	}
	// Kubelets write to nodes all the time. What matters here is that nodes come and go.
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.StorageNode{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(kube.ComesAndGoes)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return requests(agentpod.NodesOf(o))
		})).
		WatchesRawSource(kube.Later(recorded, r.Records, &v1alpha1.GlusterNodeList{}, &v1alpha1.GlusterNode{}, handler.EnqueueRequestsFromMapFunc(r.recorded), predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Member{}, handler.EnqueueRequestsFromMapFunc(lunHost), builder.WithPredicates(lunOnRecord)).
		WatchesRawSource(kube.Changes(changed, 0, func(_ context.Context, node string) []reconcile.Request { return requests([]string{node}) })).
		WithOptions(kube.Options(8))
	// Devices are shown with the name of the storage that they belong to, or with the news that it is gone.
	everyone := kube.Everyone(r.Client, func() client.ObjectList { return &v1alpha1.StorageNodeList{} })
	for _, kind := range kinds {
		b = b.Watches(kind, handler.EnqueueRequestsFromMapFunc(everyone), builder.WithPredicates(kube.ComesAndGoes))
	}
	return b.Complete(r)
}

// recorded returns the nodes that a GlusterNode has disks of on record.
func (r *Reconciler) recorded(_ context.Context, o client.Object) []reconcile.Request {
	n, ok := o.(*v1alpha1.GlusterNode)
	if !ok {
		return nil
	}
	r.glusterNodes.Forget()
	var hosts []string
	for _, d := range n.Spec.Devices {
		hosts = append(hosts, string(d.Node))
	}
	return requests(hosts)
}

// lunOnRecord lets Members through whose LUN comes on record, or goes with them.
var lunOnRecord = predicate.Funcs{
	CreateFunc:  func(e event.CreateEvent) bool { return hasLUN(e.Object) },
	UpdateFunc:  func(e event.UpdateEvent) bool { return hasLUN(e.ObjectOld) != hasLUN(e.ObjectNew) },
	DeleteFunc:  func(e event.DeleteEvent) bool { return hasLUN(e.Object) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func hasLUN(o client.Object) bool {
	m, ok := o.(*v1alpha1.Member)
	return ok && m.Spec.Lun != nil
}

// lunHost returns the node of a Member with a LUN.
func lunHost(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*v1alpha1.Member)
	if !ok {
		return nil
	}
	return requests([]string{string(m.Spec.Node)})
}

func requests(nodes []string) []reconcile.Request {
	var out []reconcile.Request
	for _, n := range nodes {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: n}})
	}
	return out
}
