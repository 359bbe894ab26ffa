package harbor

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Overall sums up the conditions of the four parts; others do not count. A condition that is missing is not known.
func Overall(conditions []metav1.Condition) v1alpha1.HarborStatus {
	ready := 0
	for p := range Count {
		c := meta.FindStatusCondition(conditions, Part(p).Condition())
		switch {
		case c == nil:
		case c.Status == metav1.ConditionFalse:
			return v1alpha1.HarborUnhealthy
		case c.Status == metav1.ConditionTrue:
			ready++
		}
	}
	if ready == Count {
		return v1alpha1.HarborHealthy
	}
	return v1alpha1.HarborCreating
}

// Conditions returns the conditions of the four parts, and Ready, which is computed from them, as the last one.
func Conditions(states [Count]State) []metav1.Condition {
	conditions := make([]metav1.Condition, 0, Count+1)
	for p, s := range states {
		if s.Status == "" {
			s = Pending(v1alpha1.ReasonPending, "Not looked at yet.")
		}
		conditions = append(conditions, metav1.Condition{
			Type: Part(p).Condition(), Status: s.Status, Reason: s.Reason, Message: s.Message,
		})
	}
	return append(conditions, ready(conditions))
}

// ready tells what is wrong, or else what is waited for.
func ready(facts []metav1.Condition) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady}
	status := metav1.ConditionUnknown
	switch Overall(facts) {
	case v1alpha1.HarborHealthy:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonHarborHealthy, "Harbor and its services run."
		return c
	case v1alpha1.HarborUnhealthy:
		status = metav1.ConditionFalse
		c.Reason = v1alpha1.ReasonHarborUnhealthy
	default:
		c.Reason = v1alpha1.ReasonHarborCreating
	}
	var lines []string
	for p, f := range facts {
		if f.Status == status {
			lines = append(lines, Part(p).String()+": "+f.Message)
		}
	}
	c.Status, c.Message = status, strings.Join(lines, "\n")
	return c
}
