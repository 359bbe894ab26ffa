package cluster

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// gather is how long changes of nodes are gathered before a Cluster is looked at: after a restart every node changes at once.
const gather = 100 * time.Millisecond

// finalizersChanged lets the Cluster come back after its finalizer was added: that changes neither generation nor annotations.
var finalizersChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
}}

// IndexHost is the index of Clusters by the hosts that they use.
const IndexHost = "quarry.host"

// SetupWithManager registers the reconciler. changed tells the names of nodes whose agent reported something new.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changed <-chan string) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Cluster{}, IndexHost, hostsOf)
	if err != nil {
		return err
	}
	spec := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, finalizersChanged))
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Cluster{}, spec).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.neighbours), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.StorageNode{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(sameName)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(classOf)).
		Watches(&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(r.everyOf)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.everyOf)).
		WatchesRawSource(source.Func(r.nodes(changed))).
		WatchesRawSource(source.Func(r.late)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// hostsOf indexes a Cluster by the hosts of its spec and those that are recorded.
func hostsOf(o client.Object) []string {
	c, ok := o.(*v1alpha1.Cluster)
	if !ok {
		return nil
	}
	var hosts []string
	for _, h := range c.Spec.Hosts {
		hosts = append(hosts, string(h))
	}
	for _, m := range c.Status.Members {
		hosts = append(hosts, m.Node)
	}
	return hosts
}

// usersOf returns the Clusters that use a node.
func (r *Reconciler) usersOf(ctx context.Context, o client.Object) []reconcile.Request {
	return r.users(ctx, o.GetName(), "")
}

// neighbours returns the other Clusters on the hosts of a Cluster: what it does not take any more may be theirs.
func (r *Reconciler) neighbours(ctx context.Context, o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	seen := map[reconcile.Request]bool{}
	for _, h := range hostsOf(o) {
		for _, q := range r.users(ctx, h, o.GetName()) {
			if !seen[q] {
				seen[q] = true
				requests = append(requests, q)
			}
		}
	}
	return requests
}

func (r *Reconciler) users(ctx context.Context, node, except string) []reconcile.Request {
	var list v1alpha1.ClusterList
	// The cache answers; it fails only while it is being set up, and then every Cluster is looked at anyway.
	if err := r.Client.List(ctx, &list, client.MatchingFields{IndexHost: node}); err != nil {
		logf.FromContext(ctx).Error(err, "Failed to list the clusters of a node", "node", node)
		return nil
	}
	var requests []reconcile.Request
	for _, c := range list.Items {
		if c.Name != except {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: c.Name}})
		}
	}
	return requests
}

// everyOf returns all Clusters: an attachment may be of any of them, and a driver's Deployment matters to all.
func (r *Reconciler) everyOf(ctx context.Context, o client.Object) []reconcile.Request {
	switch v := o.(type) {
	case *storagev1.VolumeAttachment:
		if v.Spec.Attacher != v1alpha1.DriverLVM {
			return nil
		}
	default:
		if o.GetLabels()[v1alpha1.LabelDriver] == "" {
			return nil
		}
	}
	var list v1alpha1.ClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		logf.FromContext(ctx).Error(err, "Failed to list clusters")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for _, c := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: c.Name}})
	}
	return requests
}

func sameName(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
}

// classOf returns the Cluster that a volume may belong to: that of the name of its class.
func classOf(_ context.Context, o client.Object) []reconcile.Request {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok || v.Spec.CSI == nil || v.Spec.CSI.Driver != v1alpha1.DriverLVM {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: v.Spec.StorageClassName}}}
}

// nodes turns changes of nodes into requests for the Clusters that use them.
func (r *Reconciler) nodes(changed <-chan string) func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
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
					for _, req := range r.users(ctx, node, "") {
						q.AddAfter(req, gather)
					}
				}
			}
		}()
		return nil
	}
}

// late turns the ends of long jobs into requests.
func (r *Reconciler) late(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case name := <-r.Work.Late():
				q.Add(reconcile.Request{NamespacedName: name})
			}
		}
	}()
	return nil
}
