package harborcluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// transitions returns the events between two statuses: a part that became ready, failed for another reason, or is not known to be ready any
// more, and a new overall status.
func transitions(before, after v1alpha1.HarborClusterStatus) []notice.Note {
	var notes []notice.Note
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
	return append(notes, notice.Note{
		Kind: kind, Reason: is.Reason, Action: "Reconcile", Message: fmt.Sprintf("The status is %s. %s", after.Status, is.Message),
	})
}

// transition returns the event about one part, if its condition changed in a way that a person can act on.
func transition(p harbor.Part, was, is *metav1.Condition) (n notice.Note, changed bool) {
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return notice.Note{}, false
	}
	n = notice.Note{Kind: corev1.EventTypeNormal, Reason: is.Reason, Action: "Reconcile", Message: p.String() + ": " + is.Message}
	switch {
	case is.Status == metav1.ConditionFalse:
		n.Kind = corev1.EventTypeWarning
	case was == nil && is.Status == metav1.ConditionUnknown, was != nil && was.Status == is.Status:
		// To wait for another thing than before is nothing to act on.
		return notice.Note{}, false
	}
	return n, true
}
