package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/health"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// note is an event as a value.
type note struct{ kind, reason, action, message string }

// announce emits what changed from one status to the next.
func (r *Reconciler) announce(before, after *v1alpha1.Cluster) {
	approved := before.Annotations[v1alpha1.AnnotationApprove]
	for _, n := range transitions(before.Status, after.Status, approved) {
		r.Events.Eventf(after, nil, n.kind, n.reason, n.action, "%s", n.message)
	}
}

// transitions returns the events between two statuses. What did not change is not told again. approved is the digest that the
// user has approved.
func transitions(before, after v1alpha1.ClusterStatus, approved string) []note {
	notes := wipeNotes(before, after, approved)
	notes = append(notes, diskNotes(before, after)...)
	notes = append(notes, memberNotes(before, after)...)
	notes = append(notes, poolNotes(before, after)...)
	if p := after.Plan; p != nil && !p.Approved && (before.Plan == nil || before.Plan.Digest != p.Digest) {
		c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionPlanApproved)
		if c != nil {
			notes = append(notes, note{corev1.EventTypeNormal, v1alpha1.ReasonApprovalRequired, "Approve", c.Message})
		}
	}
	return append(notes, readyNotes(before, after)...)
}

func readyNotes(before, after v1alpha1.ClusterStatus) []note {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return nil
	}
	kind := corev1.EventTypeNormal
	calm := []string{
		v1alpha1.ReasonPending, v1alpha1.ReasonDisksPreparing, v1alpha1.ReasonApprovalRequired, v1alpha1.ReasonDeleting,
		v1alpha1.ReasonCSIDeploying,
	}
	if is.Status != metav1.ConditionTrue && !slices.Contains(calm, is.Reason) {
		kind = corev1.EventTypeWarning
	}
	return []note{{kind, is.Reason, "Reconcile", shorten(is.Message)}}
}

func diskNotes(before, after v1alpha1.ClusterStatus) []note {
	var notes []note
	had := map[string][]string{}
	for _, h := range before.Config {
		had[h.NodeName] = h.BlockDevices
	}
	for _, h := range after.Config {
		var added []string
		for _, d := range h.BlockDevices {
			if !slices.Contains(had[h.NodeName], d) {
				added = append(added, d)
			}
		}
		if len(added) > 0 {
			notes = append(notes, note{
				corev1.EventTypeNormal, v1alpha1.ReasonDisksAdded, "AddDisks",
				shorten(fmt.Sprintf("Host %s: %s", h.NodeName, strings.Join(added, ", "))),
			})
		}
	}
	return notes
}

// wipeNotes tells of the approved wipes that are not left to do, and whose device is in use now.
func wipeNotes(before, after v1alpha1.ClusterStatus, approved string) []note {
	if before.Plan == nil || before.Plan.Digest != approved {
		return nil
	}
	var notes []note
	for _, s := range before.Plan.Steps {
		if s.Action != v1alpha1.ActionWipeDevice || len(s.Devices) != 1 {
			continue
		}
		path, _, _ := strings.Cut(s.Devices[0], " ")
		if !owns(before, s.Host, path) && owns(after, s.Host, path) {
			notes = append(notes, note{
				corev1.EventTypeNormal, v1alpha1.ReasonDiskWiped, "WipeDevice",
				fmt.Sprintf("Host %s: %s", s.Host, s.Devices[0]),
			})
		}
	}
	return notes
}

func owns(s v1alpha1.ClusterStatus, host, path string) bool {
	for _, h := range s.Config {
		if h.NodeName == host {
			return slices.Contains(h.BlockDevices, path)
		}
	}
	return false
}

// poolNotes tells of the thin pools that became nearly full, or have room again.
func poolNotes(before, after v1alpha1.ClusterStatus) []note {
	was := map[string]bool{}
	for _, i := range before.Capacity.Instances {
		was[i.Host] = i.ThinPool != nil && i.ThinPool.NearlyFull()
	}
	var notes []note
	for _, i := range after.Capacity.Instances {
		if i.ThinPool == nil || i.ThinPool.NearlyFull() == was[i.Host] {
			continue
		}
		if was[i.Host] {
			notes = append(notes, note{
				corev1.EventTypeNormal, v1alpha1.ReasonThinPoolsHealthy, "WatchPool",
				fmt.Sprintf("Host %s: thin pool %s has room again.", i.Host, i.ThinPool.Name),
			})
			continue
		}
		notes = append(notes, note{
			corev1.EventTypeWarning, v1alpha1.ReasonThinPoolNearlyFull, "WatchPool",
			fmt.Sprintf("Host %s: %s.", i.Host, health.DescribePool(*i.ThinPool)),
		})
	}
	return notes
}

func memberNotes(before, after v1alpha1.ClusterStatus) []note {
	var notes []note
	was := map[string]v1alpha1.ClusterMember{}
	for _, m := range before.Members {
		was[m.Node] = m
	}
	for _, m := range after.Members {
		old, known := was[m.Node]
		delete(was, m.Node)
		if !known || old.State == m.State {
			continue
		}
		kind, reason := corev1.EventTypeNormal, v1alpha1.ReasonMemberStateChanged
		switch nodestate.State(m.State) {
		case nodestate.Failed:
			reason = v1alpha1.ReasonMemberFailing
			kind = corev1.EventTypeWarning
		case nodestate.Offline:
			kind = corev1.EventTypeWarning
		}
		message := fmt.Sprintf("Host %s went from %s to %s", m.Node, old.State, m.State)
		if m.Message != "" {
			message += ": " + m.Message
		}
		notes = append(notes, note{kind, reason, "ChangeState", shorten(message)})
	}
	for _, m := range before.Members {
		if _, left := was[m.Node]; left {
			notes = append(notes, note{
				corev1.EventTypeNormal, v1alpha1.ReasonMemberRemoved, "RemoveMember",
				fmt.Sprintf("Host %s is not a member any more.", m.Node),
			})
		}
	}
	return notes
}

// shorten keeps a message within what the API server takes for an event.
func shorten(s string) string {
	const limit = 1000
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
