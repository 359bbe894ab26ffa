package harborcluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// note is an event as a value.
type note struct{ kind, reason, action, message string }

// transitions returns the events between two statuses: a part that became ready, failed for another reason, or is not known to be ready any
// more, and a new overall status.
func transitions(before, after v1alpha1.HarborClusterStatus) []note {
	var notes []note
	for p := range harbor.Count {
		part := harbor.Part(p)
		was := meta.FindStatusCondition(before.Conditions, part.Condition())
		is := meta.FindStatusCondition(after.Conditions, part.Condition())
		if n, ok := transition(part, was, is); ok {
			notes = append(notes, n)
		}
	}
	if before.Status == after.Status {
		return notes
	}
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	kind := corev1.EventTypeNormal
	if after.Status == v1alpha1.HarborUnhealthy {
		kind = corev1.EventTypeWarning
	}
	return append(notes, note{kind, is.Reason, "Reconcile", shorten(fmt.Sprintf("The status is %s. %s", after.Status, is.Message))})
}

func transition(p harbor.Part, was, is *metav1.Condition) (note, bool) {
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return note{}, false
	}
	message := shorten(p.String() + ": " + is.Message)
	switch {
	case is.Status == metav1.ConditionFalse:
		return note{corev1.EventTypeWarning, is.Reason, "Reconcile", message}, true
	case was == nil && is.Status == metav1.ConditionUnknown, was != nil && was.Status == is.Status:
		// Waiting for another thing than before is nothing to act on.
		return note{}, false
	}
	return note{corev1.EventTypeNormal, is.Reason, "Reconcile", message}, true
}

// shorten keeps a message within what the API server takes for an event.
func shorten(s string) string {
	const limit = 1000
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
