package statefulcluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func (r *Reconciler) announceCreated(s *scope, pod *corev1.Pod) {
	kube.EmitRelated(r.Events, s.cluster, pod, notice.Note{
		Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonReplicaCreated, Action: "Create",
		Message: fmt.Sprintf("Replica %s is made.", pod.Name),
	})
}

// announceRemoved emits a warning about a replica that was given up, and a normal event about one that was not needed any more.
func (r *Reconciler) announceRemoved(s *scope, pod *corev1.Pod) {
	n := notice.Note{Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonReplicaRemoved, Action: "Remove", Message: s.decision.Message}
	if replaced(s.decision.Reason) {
		n.Kind, n.Reason = corev1.EventTypeWarning, v1alpha1.ReasonReplicaReplaced
	}
	kube.EmitRelated(r.Events, s.cluster, pod, n)
}

// announceAdopted emits an event about a replica that came back on kept claims.
func (r *Reconciler) announceAdopted(s *scope, c *corev1.PersistentVolumeClaim) {
	kube.EmitRelated(r.Events, s.cluster, c, notice.Note{
		Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonReplicaAdopted, Action: "Adopt",
		Message: "Replica " + s.plan.Name(c.Labels[v1alpha1.LabelIdentity]) + " comes back on the claims that spec.adopt names.",
	})
}

// announceTakeover emits an event about a pod that nobody controlled.
func (r *Reconciler) announceTakeover(s *scope, p *corev1.Pod) {
	kube.EmitRelated(r.Events, s.cluster, p, notice.Note{
		Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonReplicaAdopted, Action: "Adopt",
		Message: "Replica " + p.Name + ", which nobody controlled, is adopted with its claims. Its pod runs on.",
	})
}

// announceRefused emits a warning about claims that were not adopted before a replica is made that begins empty.
func (r *Reconciler) announceRefused(s *scope, why string) {
	if why != "" {
		kube.Emit(r.Events, s.cluster, notice.Note{Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonAdoptionRefused, Action: "Adopt", Message: why})
	}
}

// replaced reports whether a removal gives up a replica that is still wanted.
func replaced(reason string) bool {
	switch reason {
	case v1alpha1.ReasonReplicaLost, v1alpha1.ReasonReplicaFinished, v1alpha1.ReasonReplicaUnhealthy:
		return true
	}
	return false
}

// transitions returns the events between two statuses that a user can act on: whether the StatefulCluster is Ready, with the reason when
// it is not, and a disruption budget that holds up a removal. Progress makes no event.
func transitions(before, after v1alpha1.StatefulClusterStatus) []notice.Note {
	var notes []notice.Note
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllFieldsUsed} {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		if kind == v1alpha1.ConditionAllFieldsUsed && is.Status == metav1.ConditionTrue {
			continue
		}
		level := corev1.EventTypeNormal
		switch is.Reason {
		case v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonCreateFailed, v1alpha1.ReasonRemoveFailed, v1alpha1.ReasonRolloutStalled,
			v1alpha1.ReasonDisruptionBudget, v1alpha1.ReasonFieldsWithoutUse, v1alpha1.ReasonAdoptionRefused,
			v1alpha1.ReasonQuorumGuard, v1alpha1.ReasonApprovalNeeded, v1alpha1.ReasonLastCopy, v1alpha1.ReasonNoRoom, v1alpha1.ReasonReplicasUnknown:
			level = corev1.EventTypeWarning
		case v1alpha1.ReasonReady:
		default:
			continue
		}
		notes = append(notes, notice.Note{Kind: level, Reason: is.Reason, Action: "Reconcile", Message: is.Message})
	}
	return notes
}
