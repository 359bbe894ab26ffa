// Package statefulcluster keeps the replicas of StatefulClusters: it observes pods, claims and nodes, lets package decide choose one action,
// and carries it out. It needs no agent and knows nothing of what the replicas run.
package statefulcluster

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/blueprint"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/statefulcluster/gauge"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=statefulclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.storage,resources=statefulclusters/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=statefulclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles StatefulClusters. Its rights on pods and claims are not among those above. It reads them with the ClusterRole
// quarry-statefulcluster-view, and makes and removes them in each namespace that has a binding of the ClusterRole quarry-statefulcluster.
type Reconciler struct {
	// Client reads StatefulClusters and PersistentVolumes, and writes.
	Client client.Client
	// Workloads reads pods, claims and nodes from a cache that may be late.
	Workloads client.Reader
	// Live reads from the API server itself. Nothing is made or removed for what the cache alone says.
	Live client.Reader
	// Events tells users what happened.
	Events events.EventRecorder
	// Now is the time, Identity mints an identity that was never used.
	Now      func() time.Time
	Identity func() string
	// Runs reports whether somebody looks after the storages of a kind. All kinds are looked after where it is nil.
	Runs func(kind string) bool
	// Told returns which Members, by UID, have by now a status that this controller told itself, and lately. All have where it is nil.
	Told func() func(types.UID) bool
	// Watched returns which of these say of their devices how they are now, since their hosts told. All do where it is nil.
	Watched func() func(types.UID) bool
}

// Reconcile brings one StatefulCluster closer to its spec, by one action at most.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c := &v1alpha1.StatefulCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, c); err != nil {
		if apierrors.IsNotFound(err) {
			gauge.Forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !c.DeletionTimestamp.IsZero() {
		// Owner references take everything else away.
		return ctrl.Result{}, nil
	}
	result, err := r.reconcile(ctx, c)
	return kube.Retry(ctx, result, err)
}

func (r *Reconciler) reconcile(ctx context.Context, c *v1alpha1.StatefulCluster) (result ctrl.Result, err error) {
	s := &scope{before: c, cluster: c.DeepCopy(), now: r.Now()}
	s.plan, s.faults = blueprint.Of(s.cluster)
	defer func() {
		err = errors.Join(err, r.writeStatus(ctx, s))
	}()
	if err := r.observe(ctx, s); err != nil {
		s.blind = true
		return ctrl.Result{}, err
	}
	if len(s.faults) > 0 {
		// Whoever deletes the StatefulCluster may have said before that the claims stay: that holds, whatever else is wrong.
		err := r.settleClaims(ctx, s)
		return ctrl.Result{RequeueAfter: s.after()}, err
	}
	if again, err := r.takeOver(ctx, s); err != nil || again {
		return ctrl.Result{RequeueAfter: kube.Again}, err
	}
	if r.keepHistory(ctx, s) {
		return ctrl.Result{RequeueAfter: kube.Again}, nil
	}
	if s.blind {
		return ctrl.Result{}, s.history.err
	}
	again, err := r.proceed(ctx, s)
	if err == nil && again {
		return ctrl.Result{RequeueAfter: kube.Again}, nil
	}
	// Claims are seen to even when the action fails: they may wait for another one.
	if s.blind {
		return ctrl.Result{}, err
	}
	if err := errors.Join(err, r.settleClaims(ctx, s), s.settleHistory()); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.after()}, nil
}

// tries is how many removals are asked for in one pass when disruption budgets keep what should go.
const tries = 3

// proceed decides and acts. When a disruption budget keeps a pod it decides once more without it: what is missing does not wait for what has to go.
// It returns true when the cache has to catch up first.
func (r *Reconciler) proceed(ctx context.Context, s *scope) (again bool, err error) {
	for range tries {
		s.decision = replica.Decide(s.input)
		if again, err := r.lookTwice(ctx, s); err != nil || again {
			return again, err
		}
		kept := len(s.kept)
		if err := r.act(ctx, s); err != nil || len(s.kept) == kept {
			return false, err
		}
		s.input.Blocked = s.kept
	}
	s.decision = replica.Decision{Action: replica.Wait, Reason: v1alpha1.ReasonDisruptionBudget, Message: s.blocked}
	return false, nil
}

// lookTwice confirms an action with the API server itself: a cache that does not know the last pod yet would have one made too many, and
// then a good one removed. It returns true when the cache has to catch up first.
func (r *Reconciler) lookTwice(ctx context.Context, s *scope) (again bool, err error) {
	if s.confirmed || s.decision.Action == replica.Wait || s.decision.Action == replica.Rest {
		return false, nil
	}
	first := s.decision
	if again, err := r.confirm(ctx, s); err != nil || again {
		return again, err
	}
	s.decision = replica.Decide(s.input)
	return s.decision.Action != first.Action || s.decision.Identity != first.Identity, nil
}
