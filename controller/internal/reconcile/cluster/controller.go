// Package cluster turns Clusters into volume groups on their hosts and a StorageClass. It observes the API server and the agents,
// lets package decide decide, and acts; it knows neither the wire nor the tools of the hosts.
package cluster

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=quarry.storage,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=clusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=quarry.storage,resources=storagenodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// refresh is how often a Cluster is looked at though nothing happened.
const refresh = 60 * time.Second

// Agents is what the reconciler knows of agents.
type Agents interface {
	// Node returns what is known about a node.
	Node(name string) decide.Node
	// Holders returns the names of the nodes that hold a group of an owner.
	Holders(ownerUID string) []string
}

// Reconciler reconciles Clusters.
type Reconciler struct {
	Client client.Client
	Agents Agents
	// Work performs steps.
	Work *Work
	// Drivers tells how CSI drivers are.
	Drivers Drivers
	// Events tells users what happened.
	Events events.EventRecorder
}

// Reconcile brings one Cluster closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c := &v1alpha1.Cluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, c); err != nil {
		if apierrors.IsNotFound(err) {
			r.Work.Forget(req.Name)
			forgetMetrics(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	result, err := r.reconcile(ctx, c)
	if apierrors.IsConflict(err) {
		// Somebody wrote at the same time. What was written comes back as an event; until then the cache may be stale.
		logf.FromContext(ctx).V(1).Info("Retrying after a conflict", "error", err.Error())
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, c *v1alpha1.Cluster) (result ctrl.Result, err error) {
	deleting := !c.DeletionTimestamp.IsZero()
	owned := controllerutil.ContainsFinalizer(c, v1alpha1.FinalizerTeardown)
	switch {
	case deleting && !owned:
		return ctrl.Result{}, nil
	case c.Spec.StorageType != v1alpha1.StorageTypeLVM:
		return r.unsupported(ctx, c)
	case !owned:
		// The update comes back as an event, and everything else happens then.
		return ctrl.Result{}, r.addFinalizer(ctx, c)
	}
	s := newScope(c)
	defer func() {
		if !s.gone {
			err = errors.Join(err, r.writeStatus(ctx, s))
		}
	}()
	if err := r.observe(ctx, s); err != nil {
		s.blind = true
		return ctrl.Result{}, err
	}
	s.running = r.Work.Running(c.Name)
	s.assess(r.Agents)
	phases := []func(context.Context, *scope) error{r.markUse, r.labelHosts, r.workDisks, r.makeClass}
	if deleting {
		phases = []func(context.Context, *scope) error{
			r.markUse, r.removeClass, r.checkVolumes, r.awaitDriver, r.workDisks, r.unlabelHosts, r.finish,
		}
	}
	for _, phase := range phases {
		if err := phase(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: s.next()}, nil
}

// unsupported answers a Cluster whose backend does not exist yet. Nothing is made for it, so nothing needs a finalizer.
func (r *Reconciler) unsupported(ctx context.Context, c *v1alpha1.Cluster) (ctrl.Result, error) {
	s := newScope(c)
	s.notSupported = true
	return ctrl.Result{}, r.writeStatus(ctx, s)
}

func (r *Reconciler) addFinalizer(ctx context.Context, c *v1alpha1.Cluster) error {
	patch := client.MergeFromWithOptions(c.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.AddFinalizer(c, v1alpha1.FinalizerTeardown)
	return r.Client.Patch(ctx, c, patch)
}
