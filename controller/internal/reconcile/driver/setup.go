package driver

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// SetupWithManager registers the reconciler. Every change that may matter leads to one request for the driver.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	lvm := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("driver").
		Watches(&v1alpha1.Cluster{}, lvm, builder.WithPredicates(clusterChanged)).
		Watches(&appsv1.Deployment{}, lvm, builder.WithPredicates(ours, predicate.GenerationChangedPredicate{})).
		Watches(&storagev1.CSIDriver{}, lvm, builder.WithPredicates(ours)).
		Watches(&corev1.PersistentVolume{}, lvm, builder.WithPredicates(gone)).
		WatchesMetadata(definition(), lvm, builder.WithPredicates(predicate.NewPredicateFuncs(isSnapshotAPI))).
		Complete(r)
}

// definition is the kind of CustomResourceDefinitions, of which only the names are looked at.
func definition() client.Object {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

func isSnapshotAPI(o client.Object) bool { return o.GetName() == crd }

// clusterChanged lets the first and the last of a Cluster through, and what changes its spec.
var clusterChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
		len(e.ObjectOld.GetFinalizers()) != len(e.ObjectNew.GetFinalizers())
}}

var ours = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelDriver] != "" })

// gone is true for objects that were deleted, and for nothing else.
var gone = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}
