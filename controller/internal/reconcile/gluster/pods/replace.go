package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/kube"
)

// Replace has the very pod that was read end, unless anything about it was changed meanwhile, and its workload makes another one. It is evicted, so that no other pod of the
// pool is away by somebody's will at the same time. One that is idle is deleted: a budget would keep it for not being ready. The error is what the API server said, as it is.
func Replace(ctx context.Context, c client.Client, p *corev1.Pod, idle bool) error {
	if idle {
		return kube.DeleteUnchanged(ctx, c, p)
	}
	err := c.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(p.UID), ResourceVersion: new(p.ResourceVersion)}},
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evict pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// Refusal says why a pod was not replaced, and what to do; empty when nothing has to be told: it was replaced, or it was changed meanwhile and is looked at again. passes is true when
// the same request may succeed later without anybody mending anything: a budget keeps the pod.
func Refusal(p *corev1.Pod, err error) (why string, passes bool) {
	switch {
	case err == nil, apierrors.IsConflict(err):
		return "", true
	case apierrors.IsTooManyRequests(err):
		return sentence(said(err)), true
	case kube.Denied(err):
		return sentence(err.Error()) + fmt.Sprintf(" Apply the ClusterRole quarry-gluster of this version, and see that it is bound in namespace %s.", p.Namespace), false
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return sentence(said(err)) + " Mend what the message names, or delete the pod yourself.", false
	}
	return sentence(said(err)) + fmt.Sprintf(" It is asked again. If that goes on, look which PodDisruptionBudgets of namespace %s select the pod: more than one keep it for ever.", p.Namespace), false
}

// said is an error with the causes that the API server gives beside its message: they name the budget, and how many pods it wants.
func said(err error) string {
	text := err.Error()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return text
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Message != "" && !strings.Contains(text, cause.Message) {
			text = strings.TrimRight(text, ".") + ": " + cause.Message
		}
	}
	return text
}

// sentence ends a text with one full stop.
func sentence(text string) string { return strings.TrimRight(text, ". ") + "." }
