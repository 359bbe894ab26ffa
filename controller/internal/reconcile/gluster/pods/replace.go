package pods

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/kube"
)

// Takes says whether the machine that a pod is on takes pods.
func Takes(ctx context.Context, live client.Reader, p *corev1.Pod) gluster.Answer {
	n := &corev1.Node{}
	if err := live.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, n); err != nil {
		return gluster.Unknown
	}
	return gluster.Of(!n.Spec.Unschedulable)
}

// Replace has the very pod that was read end, unless anything about it was changed meanwhile, and its workload makes another one. It is evicted, so that no other pod of the
// pool is away by somebody's will at the same time; refused says which budget does not let it go. One that is idle is deleted: a budget would keep it for not being ready.
func Replace(ctx context.Context, c client.Client, p *corev1.Pod, idle bool) (refused string, err error) {
	if idle {
		return "", kube.DeleteUnchanged(ctx, c, p)
	}
	err = c.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(p.UID), ResourceVersion: new(p.ResourceVersion)}},
	})
	switch {
	case apierrors.IsTooManyRequests(err):
		return strings.TrimRight(err.Error(), ".") + ".", nil
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("replace pod %s: %w", p.Name, err)
	}
	return "", nil
}
