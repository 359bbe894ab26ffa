// Package handover ends the agents of the namespace that they were in before, node by node, while those of the namespace that they are in now
// start. It comes to an end: once nothing is left of the earlier agents it asks the API server for nothing. It is needed until test/upgrade/base names
// a commit after decision 0037.
package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/decide/handover"
)

// +kubebuilder:rbac:groups=apps,namespace=quarry-agents,resources=daemonsets,resourceNames=quarry-agent,verbs=get
// +kubebuilder:rbac:groups=apps,namespace=quarry-system,resources=daemonsets,resourceNames=quarry-agent,verbs=get;delete
// +kubebuilder:rbac:groups="",namespace=quarry-system,resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",namespace=quarry-system,resources=serviceaccounts,resourceNames=quarry-agent,verbs=delete
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=quarry-system,resources=networkpolicies,resourceNames=quarry-agent,verbs=delete

// Runner hands over. It runs on the leader only.
type Runner struct {
	// Client reads from the API server: what is decided here must not rest on what was a moment ago.
	Client client.Client
	// Earlier and Later are the namespaces of before and of now.
	Earlier, Later string
	// Pause between two looks.
	Pause time.Duration
	Log   logr.Logger
}

// Start works until nothing is left of the earlier agents, or the context ends. What fails is tried again.
func (r *Runner) Start(ctx context.Context) error {
	if r.Earlier == r.Later {
		return nil
	}
	for said := ""; ; {
		step, err := r.Step(ctx)
		if ctx.Err() != nil || err == nil && step.Done {
			return nil
		}
		said = r.tell(said, step, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.Pause):
		}
	}
}

// tell logs what failed or is waited for, unless that was said of the step before. It returns what is said of this one: nothing if it went well, so
// that the same trouble is told again when it comes back.
func (r *Runner) tell(said string, step handover.Step, err error) string {
	now := step.Why
	if err != nil {
		now = err.Error()
	}
	switch {
	case now == said || now == "":
	case err != nil:
		r.Log.Error(err, "Failed to hand over from the agents of before", "namespace", r.Earlier)
	default:
		r.Log.Info("Waiting with the agents of before", "namespace", r.Earlier, "reason", now)
	}
	return now
}

// Step looks, decides and does one step.
func (r *Runner) Step(ctx context.Context) (handover.Step, error) {
	earlier, state, pods, err := r.observe(ctx)
	if err != nil {
		return handover.Step{}, err
	}
	step := handover.Next(state)
	switch {
	case step.Done:
		return step, r.sweep(ctx)
	case step.Disown:
		r.Log.Info("Deleting the DaemonSet of the agents of before; its pods go on until their turn comes", "namespace", r.Earlier)
		return step, r.remove(ctx, earlier, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	}
	var errs []error
	for _, name := range step.Delete {
		r.Log.Info("Ending an agent of before", "namespace", r.Earlier, "pod", name, "node", pods[name].Spec.NodeName)
		errs = append(errs, r.remove(ctx, pods[name]))
	}
	return step, errors.Join(errs...)
}

// observe reads what there is of both. It returns the pods of the earlier agents by name, too.
func (r *Runner) observe(ctx context.Context) (*appsv1.DaemonSet, handover.State, map[string]*corev1.Pod, error) {
	state, pods := handover.State{}, map[string]*corev1.Pod{}
	earlier, err := r.daemonSet(ctx, r.Earlier)
	if err != nil {
		return nil, state, nil, err
	}
	if earlier != nil {
		state.Earlier = &handover.Earlier{Leaving: !earlier.DeletionTimestamp.IsZero()}
	}
	list := corev1.PodList{}
	if err := r.Client.List(ctx, &list, client.InNamespace(r.Earlier), client.MatchingLabelsSelector{Selector: agentpod.Selector()}); err != nil {
		return nil, state, nil, fmt.Errorf("list agent pods in %s: %w", r.Earlier, err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		pods[p.Name] = p
		state.Pods = append(state.Pods, handover.Pod{Name: p.Name, Ready: ready(p), Leaving: !p.DeletionTimestamp.IsZero()})
	}
	if earlier == nil && len(pods) == 0 {
		return nil, state, nil, nil
	}
	later, err := r.daemonSet(ctx, r.Later)
	if err != nil {
		return nil, state, nil, err
	}
	if later != nil {
		state.Later, err = count(later)
	}
	return earlier, state, pods, err
}

func (r *Runner) daemonSet(ctx context.Context, namespace string) (*appsv1.DaemonSet, error) {
	d := &appsv1.DaemonSet{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: agentpod.DaemonSet}, d)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get daemonset %s/%s: %w", namespace, agentpod.DaemonSet, err)
	}
	return d, nil
}

// count reads what matters of the DaemonSet of now.
func count(d *appsv1.DaemonSet) (*handover.Later, error) {
	if !d.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	out := &handover.Later{
		Observed: d.Status.ObservedGeneration >= d.Generation,
		Wanted:   int(d.Status.DesiredNumberScheduled), Ready: int(d.Status.NumberReady), MaxUnavailable: 1,
	}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, out.Wanted, true)
		if err != nil {
			return nil, fmt.Errorf("maxUnavailable of daemonset %s/%s: %w", d.Namespace, d.Name, err)
		}
		out.MaxUnavailable = n
	}
	return out, nil
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// sweep removes what the earlier agents had: without it nobody can become one again.
func (r *Runner) sweep(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: r.Earlier, Name: agentpod.DaemonSet}
	return errors.Join(
		r.remove(ctx, &corev1.ServiceAccount{ObjectMeta: meta}),
		r.remove(ctx, &networkingv1.NetworkPolicy{ObjectMeta: meta}),
	)
}

// remove deletes an object; one that was read, and no other of its name.
func (r *Runner) remove(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if uid := o.GetUID(); uid != "" {
		opts = append(opts, client.Preconditions{UID: &uid})
	}
	if err := r.Client.Delete(ctx, o, opts...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}
