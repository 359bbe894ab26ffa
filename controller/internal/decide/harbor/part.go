// Package harbor decides what a HarborCluster consists of: the values that its children shall have, what their status means, how Harbor
// reaches its services, and the overall status. It is pure: it knows neither clients nor the operators behind the children.
package harbor

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Part is one of the four parts of a HarborCluster.
type Part int

// The parts, in the order in which they are told of.
const (
	Storage Part = iota
	Database
	Cache
	Service
)

// Count is the number of parts.
const Count = int(Service) + 1

var parts = [Count]struct{ name, condition string }{
	Storage:  {"storage", v1alpha1.ConditionStorageReady},
	Database: {"database", v1alpha1.ConditionDatabaseReady},
	Cache:    {"cache", v1alpha1.ConditionCacheReady},
	Service:  {"service", v1alpha1.ConditionServiceReady},
}

// String returns the name of the part.
func (p Part) String() string { return parts[p].name }

// Condition returns the type of the part's condition.
func (p Part) Condition() string { return parts[p].condition }

// State is how a part is. The zero value says that nothing is known.
type State struct {
	// Status is True when the part works, False when something is known to be wrong, and Unknown otherwise.
	Status metav1.ConditionStatus
	// Reason and Message for a condition.
	Reason, Message string
}

// Ready says whether the part works.
func (s State) Ready() bool { return s.Status == metav1.ConditionTrue }

// Ignored says which of the imagePullSecrets of a part reach no pod, because the installed operator does not take them; nothing when all do.
func Ignored(c *v1alpha1.HarborCluster, p Part, s *Schema) string {
	switch {
	case p == Database && c.Spec.Database.Spec.ZlandoPostgreSQL != nil:
		if len(c.Spec.Database.Spec.ZlandoPostgreSQL.ImagePullSecrets) > 0 && !s.declares("spec", "imagePullSecrets") {
			return "The postgresql " + databaseName(c) + " ignores imagePullSecrets, because its operator takes none: name them in the ServiceAccount of its pods."
		}
	case p == Storage && c.Spec.Storage.Spec.MinIO != nil:
		if len(c.Spec.Storage.Spec.MinIO.ImagePullSecrets) > 1 {
			return "The Tenant " + tenantName(c) + " ignores all imagePullSecrets but the first, because its operator takes one: name them in the ServiceAccount of its pods."
		}
	}
	return ""
}

// Running is the state of a part that works.
func Running(message string) State {
	return State{metav1.ConditionTrue, v1alpha1.ReasonHarborRunning, message}
}

// External is the state of a part that somebody else runs.
func External(kind string) State {
	return State{
		metav1.ConditionTrue, v1alpha1.ReasonHarborExternal,
		"An external service of kind " + kind + " is used; it is not looked at.",
	}
}

// Pending is the state of a part that does not work yet, without anything being wrong.
func Pending(reason, message string) State { return State{metav1.ConditionUnknown, reason, message} }

// Failed is the state of a part with which something is wrong.
func Failed(reason, message string) State { return State{metav1.ConditionFalse, reason, message} }

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
