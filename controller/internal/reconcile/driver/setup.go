package driver

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
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

// SetupWithManager registers the reconciler. Every change that may matter leads to one request for the driver.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	kinds, err := kube.StorageKinds(mgr.GetScheme())
	if err != nil {
		return err
	}
	to := handler.EnqueueRequestsFromMapFunc(r.driverOf)
	b := ctrl.NewControllerManagedBy(mgr).
		Named("driver").
		Watches(&appsv1.Deployment{}, to, builder.WithPredicates(ours, predicate.GenerationChangedPredicate{})).
		Watches(&storagev1.CSIDriver{}, to, builder.WithPredicates(ours)).
		Watches(&corev1.PersistentVolume{}, to, builder.WithPredicates(kube.Gone)).
		WatchesMetadata(kube.Definition(), handler.EnqueueRequestsFromMapFunc(r.withSnapshots),
			builder.WithPredicates(predicate.NewPredicateFuncs(isSnapshotAPI)))
	for _, kind := range kinds {
		b = b.Watches(kind, to, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, kube.DeletionBegins, kube.FinalizersChanged)))
	}
	return b.WithOptions(kube.Options(1)).Complete(r)
}

// driverOf returns the driver that an object belongs to.
func (r *Reconciler) driverOf(_ context.Context, o client.Object) []reconcile.Request {
	var name string
	switch o := o.(type) {
	case v1alpha1.Storage:
		if p, ok := r.Of(o); ok {
			name = p.Driver.Name
		}
	case *corev1.PersistentVolume:
		if o.Spec.CSI != nil {
			name = o.Spec.CSI.Driver
		}
	default:
		name = o.GetLabels()[v1alpha1.LabelDriver]
	}
	if _, ok := r.entry(name); !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// withSnapshots returns the drivers that make snapshots.
func (r *Reconciler) withSnapshots(context.Context, client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, e := range r.Entries {
		if d := e.Profile.Driver; d.Snapshots {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: d.Name}})
		}
	}
	return out
}

func isSnapshotAPI(o client.Object) bool { return o.GetName() == crd }

var ours = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelDriver] != "" })
