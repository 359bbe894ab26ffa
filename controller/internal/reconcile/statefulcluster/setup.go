package statefulcluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"

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
	"sigs.k8s.io/controller-runtime/pkg/source"

	"quarry.storage/quarry/controller/internal/decide/stateful/disk"
	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// SetupWithManager registers the reconciler. workloads is the cache of pods, claims and nodes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workloads cache.Cache) error {
	spec := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	// A node that comes, goes or falls silent is rare, and may matter to any StatefulCluster.
	everyone := kube.Everyone(r.Client, func() client.ObjectList { return &v1alpha1.StatefulClusterList{} })
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.StatefulCluster{}, spec).
		Watches(&v1alpha1.Member{}, handler.EnqueueRequestsFromMapFunc(everyone), builder.WithPredicates(memberChanged)).
		WatchesRawSource(source.Kind[client.Object](workloads, &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerOf))).
		WatchesRawSource(source.Kind[client.Object](workloads, &corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ownerOf))).
		WatchesRawSource(source.Kind[client.Object](workloads, &corev1.Node{}, handler.EnqueueRequestsFromMapFunc(everyone), nodeChanged)).
		WithOptions(kube.Options(4)).
		Complete(r)
}

// ownerOf returns the StatefulCluster that a pod or claim says it is of; whether it owns it is seen when it is looked at.
func ownerOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelStatefulCluster]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// nodeChanged lets only changes through that matter: kubelets write to nodes all the time. Nodes that are there at the start change nothing.
var nodeChanged = predicate.TypedFuncs[client.Object]{
	CreateFunc: func(e event.TypedCreateEvent[client.Object]) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.TypedUpdateEvent[client.Object]) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, okToo := e.ObjectNew.(*corev1.Node)
		if !ok || !okToo {
			return true
		}
		return !nodes.Same(nodes.Of(before), nodes.Of(after))
	},
}

// memberChanged lets only changes of what holds volumes through that matter.
var memberChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Member)
		after, okToo := e.ObjectNew.(*v1alpha1.Member)
		return !ok || !okToo || differ(before, after, false) || differ(before, after, true) || disk.Away(before) != disk.Away(after)
	},
}

func differ(a, b *v1alpha1.Member, sound bool) bool {
	was, wasDoubtful := disk.State(a, disk.Seen, sound)
	is, isDoubtful := disk.State(b, disk.Seen, sound)
	return was != is || wasDoubtful != isDoubtful
}

// NewIdentity mints an identity: 64 random bits, so that none is ever used twice.
func NewIdentity() string {
	var b [8]byte
	// It never fails: the runtime ends the process when the kernel has no randomness.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
