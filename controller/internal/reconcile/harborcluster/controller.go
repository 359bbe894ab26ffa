// Package harborcluster runs Harbor with its database, cache and storage. It observes the children of a HarborCluster, lets package
// decide/harbor decide, and applies; what the children do is the business of their own operators.
package harborcluster

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// What the controller may write for a HarborCluster is not here: deploy/rbac/harbor.yaml grants it per namespace.
//
// +kubebuilder:rbac:groups=quarry.storage,resources=harborclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=quarry.storage,resources=harborclusters/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=harborclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=acid.zalan.do,resources=postgresqls,verbs=get;list;watch
// +kubebuilder:rbac:groups=databases.spotahome.com,resources=redisfailovers,verbs=get;list;watch
// +kubebuilder:rbac:groups=minio.min.io,resources=tenants,verbs=get;list;watch
// +kubebuilder:rbac:groups=goharbor.io,resources=harbors;harborconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=cert-manager.io,resources=clusterissuers,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles HarborClusters.
type Reconciler struct {
	// Client writes, and reads what is cached: HarborClusters, StorageClasses and definitions.
	Client client.Client
	// Live reads children and Secrets from the API server itself: the controller may not list Secrets, so it cannot cache them.
	Live client.Reader
	// Events tells users what happened.
	Events events.EventRecorder
	// Settled is how long after its definition was made a kind is known to Kubernetes' garbage collector.
	Settled time.Duration
	// Password makes a new password.
	Password func() string

	// definitions of the children's kinds as they were last read.
	definitions definitions
	// rehearsed has, for each HarborCluster, the mark of the children that were last taken in a rehearsal.
	rehearsed sync.Map
	// applied has, for each HarborCluster, the last application to each of its children.
	applied sync.Map
	// released has the UIDs of the HarborClusters whose data this process saw without them as its owner, Secrets included. No earlier version works beside it.
	released sync.Map
	// watch begins to watch a kind of children, once; nil in tests that call Reconcile themselves.
	watch func(schema.GroupVersionKind) error
}

// Reconcile brings one HarborCluster closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c := &v1alpha1.HarborCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, c); err != nil {
		if apierrors.IsNotFound(err) {
			forgetMetrics(req.NamespacedName)
			r.rehearsed.Delete(req.NamespacedName)
			r.applied.Delete(req.NamespacedName)
			err = r.witnesses().Dismiss(ctx, req.NamespacedName)
		}
		return kube.Retry(ctx, ctrl.Result{}, err)
	}
	if !c.DeletionTimestamp.IsZero() {
		return r.end(ctx, c)
	}
	s := newScope(c)
	err := r.settle(ctx, s)
	if err == nil {
		err = r.reconcile(ctx, s)
	} else {
		s.blind = err
	}
	err = errors.Join(err, r.writeStatus(ctx, s))
	return kube.Retry(ctx, ctrl.Result{RequeueAfter: s.next()}, err)
}

// reconcile looks after the services of Harbor, and after Harbor itself when they are ready.
func (r *Reconciler) reconcile(ctx context.Context, s *scope) error {
	if err := r.check(ctx, s); err != nil {
		s.blind = err
		return err
	}
	if err := r.rehearse(ctx, s); err != nil {
		s.blind = err
		return err
	}
	unsure := r.certificates(ctx, s)
	err := r.services(ctx, s)
	s.serve = err == nil && s.act() && s.servicesReady()
	return errors.Join(unsure, err, r.part(ctx, s, harbor.Service, r.service), r.configuration(ctx, s))
}
