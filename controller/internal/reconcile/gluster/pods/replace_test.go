package pods

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRefusal: everything that keeps a pod is told with what to do, but that it was changed meanwhile. What a budget says is in the causes.
func TestRefusal(t *testing.T) {
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget etcd needs 2 healthy pods and has 2 currently"}}
	of := corev1.Resource("pods")
	for name, row := range map[string]struct {
		err    error
		want   []string
		passes bool
	}{
		"it was replaced":        {nil, nil, true},
		"it was changed":         {apierrors.NewConflict(of, "p", errors.New("another version")), nil, true},
		"a budget":               {budget, []string{"disruption budget: The disruption budget etcd needs 2 healthy pods and has 2 currently."}, true},
		"many requests":          {apierrors.NewTooManyRequestsError("slow down"), []string{"slow down."}, true},
		"no right":               {apierrors.NewForbidden(of, "p", errors.New(`User "q" cannot create resource "pods/eviction" in API group ""`)), []string{`cannot create resource "pods/eviction"`, "Apply the ClusterRole quarry-gluster", "namespace ns."}, false},
		"a policy":               {apierrors.NewForbidden(of, "p", errors.New("a webhook denied it")), []string{"a webhook denied it. Mend what the message names"}, false},
		"more budgets than one":  {apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support")), []string{"more than one PodDisruptionBudget", "It is asked again.", "namespace ns select the pod"}, false},
		"no answer":              {errors.New("connection refused"), []string{"connection refused. It is asked again."}, false},
		"an answer without more": {&apierrors.StatusError{ErrStatus: metav1.Status{Message: "no"}}, []string{"no. It is asked again."}, false},
	} {
		err := row.err
		if err != nil {
			err = fmt.Errorf("evict pod: %w", err)
		}
		why, passes := Refusal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}, err)
		if passes != row.passes || (why == "") != (row.want == nil) || strings.Contains(why, "..") {
			t.Errorf("%s: %q, %v", name, why, passes)
		}
		for _, want := range row.want {
			if !strings.Contains(why, want) {
				t.Errorf("%s: %q lacks %q", name, why, want)
			}
		}
	}
}
