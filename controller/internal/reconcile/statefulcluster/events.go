package statefulcluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// maxNote is the longest message that the API server takes for an event.
const maxNote = 1000

func (r *Reconciler) announceCreated(s *scope, pod *corev1.Pod) {
	r.Events.Eventf(s.cluster, pod, corev1.EventTypeNormal, v1alpha1.ReasonReplicaCreated, "Create", "Replica %s is made.", pod.Name)
}

// announceRemoved tells of a replica that was given up as a warning, and of one that was not needed any more as news.
func (r *Reconciler) announceRemoved(s *scope, pod *corev1.Pod) {
	kind, reason := corev1.EventTypeNormal, v1alpha1.ReasonReplicaRemoved
	if replaced(s.decision.Reason) {
		kind, reason = corev1.EventTypeWarning, v1alpha1.ReasonReplicaReplaced
	}
	r.Events.Eventf(s.cluster, pod, kind, reason, "Remove", "%s", s.decision.Message)
}

// replaced tells whether a removal gives up a replica that is still wanted.
func replaced(reason string) bool {
	switch reason {
	case v1alpha1.ReasonReplicaLost, v1alpha1.ReasonReplicaFinished, v1alpha1.ReasonReplicaUnhealthy:
		return true
	}
	return false
}

// announce tells what a user can act on: whether the StatefulCluster is Ready, with the reason when it is not, and a budget that holds up
// a removal. What is merely on its way is not told.
func (r *Reconciler) announce(before, after *v1alpha1.StatefulCluster) {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllFieldsUsed} {
		was, is := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
		if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		if kind == v1alpha1.ConditionAllFieldsUsed && is.Status == metav1.ConditionTrue {
			continue
		}
		level := corev1.EventTypeNormal
		switch is.Reason {
		case v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonCreateFailed, v1alpha1.ReasonRemoveFailed, v1alpha1.ReasonRolloutStalled,
			v1alpha1.ReasonDisruptionBudget, v1alpha1.ReasonFieldsWithoutUse:
			level = corev1.EventTypeWarning
		case v1alpha1.ReasonReady:
		default:
			continue
		}
		r.Events.Eventf(after, nil, level, is.Reason, "Reconcile", "%s", shorten(is.Message))
	}
}

func shorten(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return strings.ToValidUTF8(s[:maxNote], "") + "…"
}
