// Package gluster reconciles GlusterClusters with their GlusterNodes. One pass is about a whole pool: what a node may do depends on all others, and a pool is
// looked at once for all of them. So a request names a GlusterCluster, whether it exists or not, and no two passes about one pool run at the same time.
//
// Package decide/gluster decides, pool asks the servers, and this one looks at what Kubernetes has, and acts. At most one thing is changed in a pool in a
// pass: whatever comes after it would be decided on facts of before.
package gluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/disks"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// What the controller may write for a GlusterCluster, and read of pods and claims, is not here: deploy/rbac/gluster.yaml grants it per namespace.
//
// +kubebuilder:rbac:groups=quarry.storage,resources=glusterclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=quarry.storage,resources=glusternodes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=quarry.storage,resources=clusters;members;storagenodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.storage,resources=glusterclusters/status;glusternodes/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=glusterclusters/finalizers;glusternodes/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Pauses between passes. Nothing tells when something happens in a pool, so it is asked.
const (
	pauseBusy = 5 * time.Second
	pauseCalm = 30 * time.Second
	pauseNext = 100 * time.Millisecond
)

// Reconciler reconciles GlusterClusters and GlusterNodes.
type Reconciler struct {
	// Client writes, and reads PersistentVolumes, which are counted.
	Client client.Client
	// Live reads from the API server itself: nothing is decided on what a cache says.
	Live client.Reader
	// Events tells users what happened.
	Events events.EventRecorder
	// Dial returns how to reach servers that have a secret, and certificates of an authority if one is given.
	Dial func(secret, ca []byte) (func(address string) (servers.API, error), error)
	// Agents tell of the disks of nodes of Kubernetes. Without them no node gets one.
	Agents disks.Agents
	// Sidecars are the images beside the CSI drivers.
	Sidecars csi.Sidecars
	// Now is the time, Started when this process began to lead: with its first pass, if it is not given. Suffix makes the end of a name that no node ever had, Secret a secret.
	Now            func() time.Time
	Started        time.Time
	Suffix, Secret func() string

	began sync.Once
	// applied has of each object that was applied last how it was then, and what was wanted.
	applied sync.Map
	// heard has of each pool since when it was heard without a break, and seen of each record of a disk since when this process knows of it.
	heard, seen sync.Map
	// ran has of each node with disks how its pod was in the last pass.
	ran sync.Map
	// missed has of each node since when each of its disks was missing in every pass, and tried when glusterd2 was last told of each in vain.
	missed, tried sync.Map
}

// Reconcile makes one pass over a pool.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.began.Do(func() {
		if r.Started.IsZero() {
			r.Started = r.Now()
		}
	})
	s, err := r.begin(ctx, req)
	if err != nil || s == nil {
		return kube.Retry(ctx, ctrl.Result{}, err)
	}
	if err := r.look(ctx, s); err != nil {
		s.blind = err
		if kube.Denied(err) {
			return r.denied(ctx, s, err)
		}
		return kube.Retry(ctx, ctrl.Result{}, errors.Join(err, r.writeStatus(ctx, s)))
	}
	// Each of these goes on for the others if one has an error.
	err = errors.Join(r.keep(ctx, s), r.converse(ctx, s))
	r.hear(s)
	r.stand(s)
	for _, m := range s.members {
		err = errors.Join(err, r.serve(ctx, s, m))
	}
	err = errors.Join(err, r.empty(ctx, s), r.whole(ctx, s), r.renew(ctx, s))
	err = errors.Join(err, r.writeStatus(ctx, s))
	return kube.Retry(ctx, ctrl.Result{RequeueAfter: s.next()}, err)
}

// begin reads the GlusterCluster and its nodes from the API server. It returns nothing if there is neither.
func (r *Reconciler) begin(ctx context.Context, req ctrl.Request) (*scope, error) {
	s := &scope{key: req.NamespacedName, now: r.Now()}
	c := &v1alpha1.GlusterCluster{}
	switch err := r.Live.Get(ctx, req.NamespacedName, c); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("get glustercluster %s: %w", req, err)
	default:
		s.before, s.cluster = c.DeepCopy(), c
	}
	var list v1alpha1.GlusterNodeList
	if err := r.Live.List(ctx, &list, client.InNamespace(req.Namespace), client.MatchingFields{"spec.cluster": req.Name}); err != nil {
		return nil, fmt.Errorf("list glusternodes of %s: %w", req, err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		if n.Spec.Cluster != req.Name || n.Namespace != req.Namespace {
			continue
		}
		m := &member{before: n.DeepCopy(), node: n}
		// A status may be lost, as in a restore. The record is not.
		n.Status.Joined = n.Status.Joined || n.Spec.Pool != ""
		s.members = append(s.members, m)
	}
	slices.SortFunc(s.members, func(a, b *member) int { return strings.Compare(a.node.Name, b.node.Name) })
	if s.cluster == nil && len(s.members) == 0 {
		forgetMetrics(req.NamespacedName)
		r.heard.Delete(req.NamespacedName)
		return nil, nil
	}
	return s, nil
}

// SetupWithManager registers the reconciler. What runs is looked at in pauses, as the pool is: nothing that happens there makes an event.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, kube.DeletionBegins, kube.FinalizersChanged))
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.GlusterCluster{}, changed).
		Watches(&v1alpha1.GlusterNode{}, handler.EnqueueRequestsFromMapFunc(clusterOf), changed).
		WithOptions(kube.Options(8)).
		Complete(r)
}

// clusterOf is the GlusterCluster that a node is of, whether it exists or not.
func clusterOf(_ context.Context, o client.Object) []reconcile.Request {
	n, ok := o.(*v1alpha1.GlusterNode)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: n.Namespace, Name: n.Spec.Cluster}}}
}
