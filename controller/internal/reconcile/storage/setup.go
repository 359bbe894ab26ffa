package storage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// IndexMemberNode is the index of Members by node. The API server has it too.
const IndexMemberNode = kube.MemberNode

// gather is how long changes of nodes are gathered before a storage is looked at: after a restart every node changes at once.
const gather = 100 * time.Millisecond

// touched lets through what a person or the API server did to an object, and no change of its status.
var touched = predicate.Or(
	predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, kube.FinalizersChanged, kube.DeletionBegins)

// attachedByUs lets through the attachments of volumes of our drivers. Those of all others change all the time in a cluster with another
// driver, and matter to no storage.
var attachedByUs = predicate.NewPredicateFuncs(func(o client.Object) bool {
	a, ok := o.(*storagev1.VolumeAttachment)
	return ok && ours(a.Spec.Attacher)
})

// ours reports whether a CSI driver is one of Quarry's.
func ours(driver string) bool { return strings.HasSuffix(driver, "."+v1alpha1.Group) }

// SetupWithManager registers the reconciler. changed carries the names of nodes whose agent reported something new.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, changed <-chan string) error {
	b := ctrl.NewControllerManagedBy(mgr).
		For(r.New(), builder.WithPredicates(touched)).
		Watches(&v1alpha1.Member{}, handler.EnqueueRequestsFromMapFunc(r.ofMember), builder.WithPredicates(touched)).
		Watches(&v1alpha1.StorageNode{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(kube.GoesOff)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(sameName)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(classOf)).
		Watches(&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(attachedByUs)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		WatchesRawSource(kube.Changes(changed, gather, func(ctx context.Context, node string) []reconcile.Request {
			return r.users(ctx, node, r.labelsOf(ctx, node))
		})).
		WatchesRawSource(source.Func(r.late)).
		WithOptions(kube.Options(max(r.Workers, workers)))
	kinds, err := kube.StorageKinds(mgr.GetScheme())
	if err != nil {
		return err
	}
	for _, o := range kinds {
		// What another storage does not take any more may be this one's.
		b = b.Watches(o, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, kube.DeletionBegins, kube.FinalizersChanged)))
	}
	return b.Complete(r)
}

func ctrlLog(ctx context.Context) logr.Logger { return ctrl.LoggerFrom(ctx) }

func request(name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

func sameName(_ context.Context, o client.Object) []reconcile.Request { return request(o.GetName()) }

// classOf returns the storage that a volume may belong to: that of the name of its class.
func classOf(_ context.Context, o client.Object) []reconcile.Request {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok || v.Spec.CSI == nil || !ours(v.Spec.CSI.Driver) {
		return nil
	}
	return request(v.Spec.StorageClassName)
}

// ofMember returns the storage of a Member, and when the Member goes those that may use its node now.
func (r *Reconciler) ofMember(ctx context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*v1alpha1.Member)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	if m.Spec.Of.Kind == r.New().StorageKind() {
		requests = request(m.Spec.Of.Name)
	}
	if m.DeletionTimestamp.IsZero() {
		return requests
	}
	return append(requests, r.users(ctx, string(m.Spec.Node), r.labelsOf(ctx, string(m.Spec.Node)))...)
}

// usersOf returns the storages that use a node, or want to.
func (r *Reconciler) usersOf(ctx context.Context, o client.Object) []reconcile.Request {
	return r.users(ctx, o.GetName(), o.GetLabels())
}

func (r *Reconciler) users(ctx context.Context, node string, labels map[string]string) []reconcile.Request {
	var members v1alpha1.MemberList
	// The cache returns an error only while it is being set up, and then every storage is looked at anyway.
	if err := r.Client.List(ctx, &members, client.MatchingFields{IndexMemberNode: node}); err != nil {
		ctrlLog(ctx).Error(err, "Failed to list the members of a node", "node", node)
	}
	var requests []reconcile.Request
	for _, s := range r.list(ctx) {
		owner := backend.OwnerOf(s)
		uses := backend.Wants(s.Common(), backend.Node{Name: node, Exists: true, Labels: labels}) ||
			slices.ContainsFunc(members.Items, func(m v1alpha1.Member) bool { return owner.Owns(&m) })
		if uses {
			requests = append(requests, request(s.GetName())...)
		}
	}
	return requests
}

// all returns every storage of the kind.
func (r *Reconciler) all(ctx context.Context, o client.Object) []reconcile.Request {
	if _, ok := o.(*appsv1.Deployment); ok && o.GetLabels()[v1alpha1.LabelDriver] == "" {
		return nil
	}
	var requests []reconcile.Request
	for _, s := range r.list(ctx) {
		requests = append(requests, request(s.GetName())...)
	}
	return requests
}

func (r *Reconciler) list(ctx context.Context) []v1alpha1.Storage {
	kind := r.New().StorageKind()
	var out []v1alpha1.Storage
	for _, list := range v1alpha1.StorageLists() {
		if err := r.Client.List(ctx, list); err != nil {
			ctrlLog(ctx).Error(err, "Failed to list storages")
			return nil
		}
		for _, s := range list.Storages() {
			if s.StorageKind() == kind {
				out = append(out, s)
			}
		}
	}
	return out
}

func (r *Reconciler) labelsOf(ctx context.Context, node string) map[string]string {
	n, err := nodeOf(ctx, r.Client, node)
	if err != nil {
		ctrlLog(ctx).Error(err, "Failed to get a node", "node", node)
	}
	return n.Labels
}

// late turns the ends of long jobs into requests.
func (r *Reconciler) late(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case owner := <-r.Work.Late():
				q.Add(request(owner.Name)[0])
			}
		}
	}()
	return nil
}
