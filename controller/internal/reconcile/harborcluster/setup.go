package harborcluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/decide/harbor/issuer"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Selections say which objects of shared kinds are watched: those that the operators of Redis and PostgreSQL made, and our own Jobs and Ingresses.
func Selections() (map[client.Object]cache.ByObject, error) {
	ours, err := labels.NewRequirement(v1alpha1.LabelHarborCluster, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select jobs: %w", err)
	}
	redis := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{harbor.LabelPartOf: harbor.PartOfRedis})}
	return map[client.Object]cache.ByObject{
		&appsv1.StatefulSet{}:        redis,
		&appsv1.Deployment{}:         redis,
		&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(labels.Set{harbor.LabelApplication: harbor.ApplicationSpilo})},
		&batchv1.Job{}:               {Label: labels.NewSelector().Add(*ours)},
		&networkingv1.Ingress{}:      {Label: labels.NewSelector().Add(*ours)},
	}, nil
}

// SetupWithManager registers the reconciler. children is where the children are watched: only their metadata, because what matters is
// read when it is needed. Kinds of other operators join when their definition is there.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, children cache.Cache) error {
	everyone := handler.EnqueueRequestsFromMapFunc(kube.Everyone(r.Client, func() client.ObjectList { return &v1alpha1.HarborClusterList{} }))
	// What holds data has no owner; the label says whose it is.
	owner := handler.EnqueueRequestsFromMapFunc(clusterOfChild)
	ofDatabase := handler.EnqueueRequestsFromMapFunc(clusterOfDatabase)
	ofRedis := handler.EnqueueRequestsFromMapFunc(clusterOfRedis)
	known := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return harbor.IsDefinition(o.GetName()) || issuer.IsDefinition(o.GetName())
	})
	c, err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.HarborCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// A HarborCluster that is gone before its witness was removed is asked for once more, at the beginning too.
		WatchesMetadata(&v1alpha1.HarborWitness{}, &handler.EnqueueRequestForObject{}).
		WatchesMetadata(kube.Definition(), everyone, builder.WithPredicates(known)).
		Watches(&storagev1.StorageClass{}, everyone, builder.WithPredicates(kube.Created)).
		WatchesRawSource(kind(children, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), ofRedis)).
		WatchesRawSource(kind(children, appsv1.SchemeGroupVersion.WithKind("Deployment"), ofRedis)).
		WatchesRawSource(kind(children, harbor.EndpointSliceKind, ofDatabase)).
		WatchesRawSource(kind(children, harbor.JobKind, owner)).
		WatchesRawSource(kind(children, harbor.IngressKind, owner)).
		WithOptions(kube.Options(2)).
		Build(r)
	if err != nil {
		return err
	}
	neighbours := handler.EnqueueRequestsFromMapFunc(r.neighbours)
	r.watch = kube.WatchLate(mgr.GetRESTMapper(), c, func(k schema.GroupVersionKind) source.Source {
		if k == harbor.ConfigurationKind {
			return kind(children, k, neighbours)
		}
		return kind(children, k, owner)
	})
	return nil
}

// kind is a source of the changes of one kind.
func kind(children cache.Cache, k schema.GroupVersionKind, h handler.EventHandler) source.Source {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(k)
	return source.Kind[client.Object](children, o, h)
}

// clusterOfChild returns the HarborCluster that a child is of.
func clusterOfChild(_ context.Context, o client.Object) []reconcile.Request {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == "HarborCluster" {
		return request(o.GetNamespace(), owner.Name)
	}
	return request(o.GetNamespace(), o.GetLabels()[v1alpha1.LabelHarborCluster])
}

// neighbours returns the HarborClusters of a namespace: of a HarborConfiguration only the metadata is watched, and whose it is is in its spec.
func (r *Reconciler) neighbours(ctx context.Context, o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, q := range kube.Everyone(r.Client, func() client.ObjectList { return &v1alpha1.HarborClusterList{} })(ctx, o) {
		if q.Namespace == o.GetNamespace() {
			requests = append(requests, q)
		}
	}
	return requests
}

// clusterOfRedis returns the HarborCluster that a StatefulSet or Deployment of the operator of Redis may be of.
func clusterOfRedis(_ context.Context, o client.Object) []reconcile.Request {
	return request(o.GetNamespace(), harbor.ClusterOfRedis(o.GetName()))
}

// clusterOfDatabase returns the HarborCluster whose database an EndpointSlice may lead to.
func clusterOfDatabase(_ context.Context, o client.Object) []reconcile.Request {
	return request(o.GetNamespace(), harbor.ClusterOfService(o.GetNamespace(), o.GetLabels()[harbor.LabelService]))
}

func request(namespace, name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}
