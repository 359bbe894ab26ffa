package pin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/controller/internal/kube"
)

// index is the index of the claims that lack a node by their source, as "kind/name"; under all are all of them.
const (
	index = "waiting-for-source"
	all   = "*"
)

// SetupWithManager registers the reconciler. Every change that may make the node of a source known leads to a look at the claims that wait
// for it.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.PersistentVolumeClaim{}, index, keys); err != nil {
		return fmt.Errorf("index claims by source: %w", err)
	}
	everyone := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return r.waiting(ctx, "", all)
	})
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("pin").
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(waits))).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim), builder.WithPredicates(becomesBound)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(r.ofVolume), builder.WithPredicates(later)).
		Watches(&storagev1.StorageClass{}, everyone, builder.WithPredicates(later)).
		WatchesMetadata(&corev1.Node{}, everyone, builder.WithPredicates(later)).
		WatchesMetadata(kube.Definition(), everyone, builder.WithPredicates(predicate.NewPredicateFuncs(isSnapshotAPI))).
		WithOptions(kube.Options(2)).
		Build(r)
	if err != nil {
		return err
	}
	snapshots := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.waiting(ctx, o.GetNamespace(), key(pin.KindSnapshot, o.GetName()))
	})
	r.watch = kube.WatchLate(mgr.GetRESTMapper(), c, func(k schema.GroupVersionKind) source.Source {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(k)
		return source.Kind[client.Object](mgr.GetCache(), o, snapshots)
	})
	return nil
}

// keys returns the values of a claim in the index.
func keys(o client.Object) []string {
	c, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	s, ok := pin.Waiting(c)
	if !ok {
		return nil
	}
	return []string{all, key(s.Kind, s.Name)}
}

func key(kind pin.Kind, name string) string { return string(kind) + "/" + name }

// waits reports whether a claim waits for a node, or for the provisioner.
func waits(o client.Object) bool {
	c, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok {
		return false
	}
	_, provisioning := pin.Provisioning(c)
	return provisioning || len(keys(o)) > 0
}

func isSnapshotAPI(o client.Object) bool { return o.GetName() == crd }

// becomesBound lets claims through when they are bound from now on, and can be sources.
var becomesBound = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool { return !bound(e.ObjectOld) && bound(e.ObjectNew) },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func bound(o client.Object) bool {
	c, ok := o.(*corev1.PersistentVolumeClaim)
	return ok && c.Status.Phase == corev1.ClaimBound
}

// later lets objects through that come while the controller runs. At its start it looks at every claim that waits.
var later = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// ofClaim returns the claims that wait for a claim.
func (r *Reconciler) ofClaim(ctx context.Context, o client.Object) []reconcile.Request {
	return r.waiting(ctx, o.GetNamespace(), key(pin.KindClaim, o.GetName()))
}

// ofVolume returns the claims that wait for the claim of a PersistentVolume.
func (r *Reconciler) ofVolume(ctx context.Context, o client.Object) []reconcile.Request {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok || v.Spec.ClaimRef == nil {
		return nil
	}
	return r.waiting(ctx, v.Spec.ClaimRef.Namespace, key(pin.KindClaim, v.Spec.ClaimRef.Name))
}

// waiting returns the claims of a namespace that the index has under a value; of all namespaces when it is empty.
func (r *Reconciler) waiting(ctx context.Context, namespace, value string) []reconcile.Request {
	var claims corev1.PersistentVolumeClaimList
	// Reading from the cache fails only while it is being set up, and then every claim is looked at anyway.
	err := r.Client.List(ctx, &claims, client.InNamespace(namespace), client.MatchingFields{index: value},
		&client.ListOptions{UnsafeDisableDeepCopy: new(true)})
	if err != nil {
		logf.FromContext(ctx).Error(err, "Failed to list the claims that wait for a source", "source", value)
		return nil
	}
	out := make([]reconcile.Request, 0, len(claims.Items))
	for i := range claims.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
	}
	return out
}

// nodeMetadata returns an empty Node of which only the metadata is read.
func nodeMetadata() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return o
}
