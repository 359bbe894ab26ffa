// Package notice decides which events tell people what changed between two statuses. It is pure.
package notice

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Note is an event as a value. Who sends it cuts its message to what the API server takes.
type Note struct{ Kind, Reason, Action, Message string }

// calm are reasons why something is not ready that need nobody's attention.
var calm = []string{
	v1alpha1.ReasonPending, v1alpha1.ReasonPreparing, v1alpha1.ReasonApprovalRequired, v1alpha1.ReasonDeleting,
	v1alpha1.ReasonCSIDeploying,
}

// Storage returns the events between two statuses of a storage. What did not change is not told again.
func Storage(before, after *v1alpha1.StorageStatus) []Note {
	var notes []Note
	if p := after.Plan; p != nil && !p.Approved && (before.Plan == nil || before.Plan.Digest != p.Digest) {
		if c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionPlanApproved); c != nil {
			notes = append(notes, normal(v1alpha1.ReasonApprovalRequired, "Approve", c.Message))
		}
	}
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return notes
	}
	n := normal(is.Reason, "Reconcile", is.Message)
	if is.Status != metav1.ConditionTrue && !slices.Contains(calm, is.Reason) {
		n.Kind = corev1.EventTypeWarning
	}
	return append(notes, n)
}

// Member returns the events between two statuses of a member. approved is the digest that a person has approved.
func Member(node string, before, after v1alpha1.MemberStatus, approved string, wipes func(action string) bool) []Note {
	notes := wiped(node, before, after, approved, wipes)
	notes = append(notes, added(node, before, after)...)
	notes = append(notes, state(node, before, after)...)
	notes = append(notes, left(node, before, after)...)
	return append(notes, pool(node, before, after)...)
}

// Removed returns the event about a member that is gone.
func Removed(node string) Note {
	return normal(v1alpha1.ReasonMemberRemoved, "RemoveMember", fmt.Sprintf("Host %s is not a member any more.", node))
}

// Dropped returns the event about an approval that fits no plan, or that is of a step which cannot be approved by itself. plan is the one that waits; nil for none.
func Dropped(approval, where string, plan *v1alpha1.Plan) Note {
	message := fmt.Sprintf("The approval %s fits no plan of %s and was dropped.", approval, where)
	digest, step, single := strings.Cut(approval, "/")
	switch {
	case plan == nil:
	case !single || digest != plan.Digest:
		message += fmt.Sprintf(" The plan that waits has the digest %s.", plan.Digest)
	case shows(plan, step):
		message = fmt.Sprintf("Step %s of %s cannot be approved by itself, so the approval was dropped. To approve the plan with all of its steps, write its digest alone: %s.", step, where, digest)
	default:
		message = fmt.Sprintf("%q is not the digest of a step that the plan of %s shows, so the approval was dropped. The digest of the plan is %s.", step, where, digest)
	}
	return Note{corev1.EventTypeWarning, v1alpha1.ReasonApprovalDropped, "Approve", message}
}

// Over returns the event about an approval of one step that is not offered any more.
func Over(approval, where string) Note {
	return normal(v1alpha1.ReasonApprovalDropped, "Approve", fmt.Sprintf("The approval %s of one step of %s is over: the step was taken, or cannot be taken now. If the plan shows it again, approve it again.", approval, where))
}

// shows reports whether a plan has a step of a digest, as far as its status tells.
func shows(plan *v1alpha1.Plan, step string) bool {
	return slices.Contains(plan.Whole, step) || slices.ContainsFunc(plan.Steps, func(s v1alpha1.PlanStep) bool { return s.Digest == step })
}

func added(node string, before, after v1alpha1.MemberStatus) []Note {
	var paths []string
	for _, d := range after.Devices {
		if d.State == v1alpha1.DevicePresent && !has(before, d.Path) {
			paths = append(paths, d.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return []Note{normal(v1alpha1.ReasonDisksAdded, "AddDisks", fmt.Sprintf("Host %s: %s", node, strings.Join(paths, ", ")))}
}

// wiped tells of the approved wipes that are not left to do, and whose device is in use now.
func wiped(node string, before, after v1alpha1.MemberStatus, approved string, wipes func(action string) bool) []Note {
	if before.Plan == nil || before.Plan.Digest != approved {
		return nil
	}
	var notes []Note
	for _, s := range before.Plan.Steps {
		if !wipes(s.Action) || len(s.Devices) != 1 {
			continue
		}
		path, _, _ := strings.Cut(s.Devices[0], " ")
		if !has(before, path) && has(after, path) {
			notes = append(notes, normal(v1alpha1.ReasonDiskWiped, "WipeDevice", fmt.Sprintf("Host %s: %s", node, s.Devices[0])))
		}
	}
	return notes
}

func has(s v1alpha1.MemberStatus, path string) bool {
	return slices.ContainsFunc(s.Devices, func(d v1alpha1.MemberDevice) bool { return d.Path == path })
}

func state(node string, before, after v1alpha1.MemberStatus) []Note {
	if before.State == "" || before.State == after.State {
		return nil
	}
	n := normal(v1alpha1.ReasonMemberStateChanged, "ChangeState", fmt.Sprintf("Host %s went from %s to %s", node, before.State, after.State))
	switch nodestate.State(after.State) {
	case nodestate.Failed:
		n.Kind, n.Reason = corev1.EventTypeWarning, v1alpha1.ReasonMemberFailing
	case nodestate.Offline:
		n.Kind = corev1.EventTypeWarning
	}
	if after.Message != "" {
		n.Message = n.Message + ": " + after.Message
	}
	return []Note{n}
}

// left tells that a member begins to leave, or was taken back.
func left(node string, before, after v1alpha1.MemberStatus) []Note {
	was := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionLeaving)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionLeaving)
	switch {
	case is != nil && is.Status == metav1.ConditionTrue && !was:
		return []Note{normal(is.Reason, "Leave", fmt.Sprintf("Host %s leaves: %s", node, is.Message))}
	case was && (is == nil || is.Status != metav1.ConditionTrue):
		return []Note{normal(v1alpha1.ReasonMemberStateChanged, "Leave", fmt.Sprintf("Host %s was taken back.", node))}
	}
	return nil
}

// pool tells of a thin pool that became nearly full, or has room again.
func pool(node string, before, after v1alpha1.MemberStatus) []Note {
	was := before.ThinPool != nil && before.ThinPool.NearlyFull
	if after.ThinPool == nil || after.ThinPool.NearlyFull == was {
		return nil
	}
	if was {
		return []Note{normal(v1alpha1.ReasonThinPoolsHealthy, "WatchPool",
			fmt.Sprintf("Host %s: thin pool %s has room again.", node, after.ThinPool.Name))}
	}
	return []Note{{
		corev1.EventTypeWarning, v1alpha1.ReasonThinPoolNearlyFull, "WatchPool",
		fmt.Sprintf("Host %s: %s.", node, after.ThinPool.Describe()),
	}}
}

func normal(reason, action, message string) Note {
	return Note{corev1.EventTypeNormal, reason, action, message}
}
