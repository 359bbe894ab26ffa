package driver

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

// leavesAfter is how many seconds a driver stays on a node that has one of these taints, until it is made again elsewhere. Kubernetes would wait for five minutes, and until then nobody makes, attaches
// or detaches the volumes of any node. One that runs on after all is no danger: the sidecars have a leader, and each change of a shared group its epoch.
const leavesAfter = 30

// leaves tolerates a taint for a while.
func leaves(taint string) *corev1ac.TolerationApplyConfiguration {
	return corev1ac.Toleration().WithKey(taint).WithOperator(corev1.TolerationOpExists).WithEffect(corev1.TaintEffectNoExecute).WithTolerationSeconds(leavesAfter)
}

// isOurs reports whether leaves decides about a toleration.
func isOurs(t corev1.Toleration) bool {
	return (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) && t.Effect == corev1.TaintEffectNoExecute
}

// keepTolerations adds to a wanted Deployment the tolerations that somebody gave the one that is there. The API server takes all tolerations of a pod for one value, so that
// what we apply would replace theirs, and where every node has a taint no driver would run any more.
func (r *Reconciler) keepTolerations(ctx context.Context, d backend.Driver, want *appsv1ac.DeploymentApplyConfiguration) error {
	have := r.emptyDeployment(d)
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(have), have); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get deployment %s: %w", d.Deployment, err)
	}
	keep(want, have)
	return nil
}

// keep adds those that are not ours after ours: Kubernetes takes the first that matches a taint, so that one which tolerates everything keeps no driver on a silent node.
func keep(want *appsv1ac.DeploymentApplyConfiguration, have *appsv1.Deployment) {
	for _, t := range have.Spec.Template.Spec.Tolerations {
		if isOurs(t) {
			continue
		}
		want.Spec.Template.Spec.Tolerations = append(want.Spec.Template.Spec.Tolerations, corev1ac.TolerationApplyConfiguration{
			Key: &t.Key, Operator: &t.Operator, Value: &t.Value, Effect: &t.Effect, TolerationSeconds: t.TolerationSeconds,
		})
	}
	// Who adds one between the look and the write would lose it.
	want.WithResourceVersion(have.ResourceVersion)
}
