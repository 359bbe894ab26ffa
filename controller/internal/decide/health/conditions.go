package health

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// shown is the number of hosts whose findings go into one message.
const shown = 50

// Class is how the StorageClass is.
type Class struct {
	// Exists is true when it exists and is ours.
	Exists bool
	// Conflict says why the name cannot be used; empty when it can.
	Conflict string
}

// Cluster is all that its conditions are computed from.
type Cluster struct {
	Name     string
	Deleting bool
	// Hosts in the order of their names.
	Hosts []Host
	Class Class
	// Driver is how the CSI driver of the class is.
	Driver Driver
	// Plan as it is going to be shown.
	Plan *v1alpha1.Plan
	// Blocked says what else holds the deletion; empty when nothing does.
	Blocked string
}

// Conditions returns all conditions of the Cluster; Ready, computed from the facts, is the last one. Nearly full pools still serve.
func (c Cluster) Conditions() []metav1.Condition {
	facts := []metav1.Condition{c.hostsValid(), c.disksReady(), c.planApproved(), c.classReady(), c.csiReady()}
	ready := c.ready(facts)
	return append(append(facts, c.poolsHealthy()...), ready)
}

// Unsupported returns the conditions of a Cluster whose backend does not exist yet.
func Unsupported(t v1alpha1.StorageType) []metav1.Condition {
	return []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotYetSupported,
		fmt.Sprintf("Clusters with storageType %s are not supported yet: nothing was done.", t))}
}

func (c Cluster) hostsValid() metav1.Condition {
	var reason string
	var lines []string
	for _, h := range c.Hosts {
		if f, ok := invalid(h); ok {
			reason = first(reason, f.Reason)
			lines = append(lines, h.Name+": "+f.Message)
		}
	}
	if len(lines) > 0 {
		return condition(v1alpha1.ConditionHostsValid, metav1.ConditionFalse, reason, text(lines))
	}
	return condition(v1alpha1.ConditionHostsValid, metav1.ConditionTrue, v1alpha1.ReasonHostsValid,
		"Every host exists and may be used.")
}

func (c Cluster) disksReady() metav1.Condition {
	worst := Well
	var reason string
	var lines []string
	for _, h := range c.Hosts {
		f := h.Finding()
		if _, bad := invalid(h); bad || h.Removed || f.Kind == Well {
			continue
		}
		if f.Kind > worst {
			worst, reason = f.Kind, f.Reason
		}
		lines = append(lines, h.Name+": "+f.Message)
	}
	if worst != Well {
		return condition(v1alpha1.ConditionDisksReady, metav1.ConditionFalse, reason, text(lines))
	}
	if !c.holds() && !c.Deleting {
		return condition(v1alpha1.ConditionDisksReady, metav1.ConditionFalse, v1alpha1.ReasonPending, "No host holds a volume group yet.")
	}
	return condition(v1alpha1.ConditionDisksReady, metav1.ConditionTrue, v1alpha1.ReasonDisksReady,
		"Every host holds its part of the volume group.")
}

func (c Cluster) planApproved() metav1.Condition {
	if c.Plan == nil {
		return condition(v1alpha1.ConditionPlanApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved, "No step waits for approval.")
	}
	if c.Plan.Approved {
		return condition(v1alpha1.ConditionPlanApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved,
			fmt.Sprintf("The plan %s is approved and carried out.", c.Plan.Digest))
	}
	return condition(v1alpha1.ConditionPlanApproved, metav1.ConditionFalse, v1alpha1.ReasonApprovalRequired, fmt.Sprintf(
		"%d steps wait for approval, see status.plan. To approve: kubectl annotate --overwrite clusters.%s %s %s=%s",
		len(c.Plan.Steps), v1alpha1.Group, c.Name, v1alpha1.AnnotationApprove, c.Plan.Digest))
}

func (c Cluster) classReady() metav1.Condition {
	switch {
	case c.Class.Conflict != "":
		return condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict, c.Class.Conflict)
	case c.Class.Exists:
		return condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionTrue, v1alpha1.ReasonStorageClassReady,
			fmt.Sprintf("The StorageClass %s exists.", c.Name))
	case c.Deleting:
		return condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The StorageClass is deleted.")
	}
	return condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionFalse, v1alpha1.ReasonPending,
		"The StorageClass is made once a host holds a volume group.")
}

// ready sums up: the first fact that is not true is the reason.
func (c Cluster) ready(facts []metav1.Condition) metav1.Condition {
	if c.Deleting {
		return condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, sentence(c.Message(), "The Cluster is being deleted."))
	}
	var reason string
	var messages []string
	for _, f := range facts {
		if f.Status == metav1.ConditionTrue {
			continue
		}
		reason = first(reason, f.Reason)
		messages = append(messages, f.Message)
	}
	if reason != "" {
		return condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, strings.Join(messages, "\n"))
	}
	return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "Every host serves volumes.")
}

// Message says what there is to say about the hosts, one line each, and about the Cluster.
func (c Cluster) Message() string {
	var lines []string
	for _, s := range []string{c.Blocked, c.Class.Conflict} {
		if s != "" {
			lines = append(lines, s)
		}
	}
	if c.Plan != nil && !c.Plan.Approved {
		lines = append(lines, c.planApproved().Message)
	}
	if c.Driver.Failed != "" && !c.Deleting {
		lines = append(lines, c.Driver.Failed)
	}
	lines = append(lines, c.fullPools()...)
	for _, h := range c.Hosts {
		if f := h.Finding(); f.Message != "" && !h.Removed {
			lines = append(lines, h.Name+": "+f.Message)
		}
	}
	return text(lines)
}

// Phase sums up for a person. Nothing may read it back.
func (c Cluster) Phase() v1alpha1.Phase {
	if c.Deleting {
		return v1alpha1.PhaseDeleting
	}
	worst := Well
	for _, h := range c.Hosts {
		worst = max(worst, h.Finding().Kind)
	}
	switch {
	case c.Class.Conflict != "":
		return v1alpha1.PhaseFailed
	case worst == Bad && !c.holds() && !c.moving():
		return v1alpha1.PhaseFailed
	case worst == Bad && c.holds(), worst == Waiting && c.holds():
		return v1alpha1.PhaseWarning
	case !c.Class.Exists:
		return v1alpha1.PhaseCreating
	case c.Driver.Failed != "" || len(c.fullPools()) > 0:
		return v1alpha1.PhaseWarning
	case !c.Driver.Ready:
		return v1alpha1.PhaseCreating
	case worst != Well:
		return v1alpha1.PhaseUpdating
	}
	return v1alpha1.PhaseRunning
}

// holds says whether any host that stays holds a part of the volume group.
func (c Cluster) holds() bool {
	for _, h := range c.Hosts {
		if h.Holds() && !h.Removed {
			return true
		}
	}
	return false
}

// moving says whether any host is being worked on, or waits for a person.
func (c Cluster) moving() bool {
	for _, h := range c.Hosts {
		if k := h.Finding().Kind; k == Busy || k == Waiting {
			return true
		}
	}
	return false
}

func condition(t string, s metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: t, Status: s, Reason: reason, Message: message}
}

// text joins lines, not more than a person can read and an object can hold.
func text(lines []string) string {
	const limit = 16 << 10
	if more := len(lines) - shown; more > 0 {
		lines = append(append([]string{}, lines[:shown]...), fmt.Sprintf("and %d more", more))
	}
	s := strings.Join(lines, "\n")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
