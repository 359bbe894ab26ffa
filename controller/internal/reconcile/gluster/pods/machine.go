package pods

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/rollout"
)

// Takes says whether the machine that a pod is on would take the one in its place, which its workload makes.
func Takes(ctx context.Context, live client.Reader, p *corev1.Pod, set *appsv1.StatefulSet) (rollout.Machine, error) {
	if set == nil {
		return rollout.Machine{Why: "the pod has no workload"}, nil
	}
	n := &corev1.Node{}
	switch err := live.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, n); {
	case apierrors.IsNotFound(err):
		return rollout.Machine{Takes: gluster.No, Why: fmt.Sprintf("Node %s does not exist", p.Spec.NodeName)}, nil
	case err != nil:
		err = fmt.Errorf("get node %s of pod %s/%s: %w", p.Spec.NodeName, p.Namespace, p.Name, err)
		return rollout.Machine{Why: err.Error()}, err
	}
	return machine(n, set.Spec.Template.Spec.Tolerations), nil
}

// machine says whether a Node takes pods with these tolerations. What the pod that runs tolerates beyond its template does not count: the next one may lack it.
func machine(n *corev1.Node, tolerations []corev1.Toleration) rollout.Machine {
	if n.Spec.Unschedulable {
		return rollout.Machine{Takes: gluster.No, Why: fmt.Sprintf("Node %s is cordoned", n.Name)}
	}
	// Tolerations that compare numbers count only where Kubernetes has them switched on, so they do not count here.
	taint, found := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false)
	if found {
		return rollout.Machine{Takes: gluster.No, Why: fmt.Sprintf("Node %s has the taint %s, which the pod does not tolerate", n.Name, taint.ToString())}
	}
	return rollout.Machine{Takes: gluster.Yes}
}
