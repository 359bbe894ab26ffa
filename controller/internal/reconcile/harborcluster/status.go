package harborcluster

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// writeStatus computes the status from the scope and writes it when it changed.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if apierrors.IsConflict(s.blind) {
		// It is looked at once more at once.
		return nil
	}
	after := s.cluster.DeepCopy()
	if s.blind != nil {
		notSeen(&after.Status, s)
	} else {
		fill(&after.Status, s)
	}
	recordMetrics(after)
	wrote, err := kube.WriteStatus(ctx, r.Client, s.before, after)
	if wrote {
		r.tell(ctx, s.before, after)
	}
	return err
}

func fill(status *v1alpha1.HarborClusterStatus, s *scope) {
	status.ObservedGeneration = s.cluster.Generation
	conditions := harbor.Conditions(s.states)
	for _, c := range conditions {
		c.ObservedGeneration = s.cluster.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	status.Status = harbor.Overall(conditions)
	beside(status, s, v1alpha1.ConditionCertificatesReady, s.certificates)
	beside(status, s, v1alpha1.ConditionConfigurationReady, s.configuration)
}

// beside writes a condition that does not count for the status. It goes where there is nothing to tell.
func beside(status *v1alpha1.HarborClusterStatus, s *scope, condition string, is harbor.State) {
	if is.Status == "" {
		meta.RemoveStatusCondition(&status.Conditions, condition)
		return
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: condition, Status: is.Status, Reason: is.Reason, Message: is.Message, ObservedGeneration: s.cluster.Generation,
	})
}

// notSeen leaves what is said of the parts as it was, and tells that nobody knows whether it still holds.
func notSeen(status *v1alpha1.HarborClusterStatus, s *scope) {
	if len(status.Conditions) == 0 {
		fill(status, s)
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonHarborNotSeen, ObservedGeneration: s.cluster.Generation,
		Message: "It could not be looked at; the other conditions say what was seen last: " + s.blind.Error(),
	})
}

// tell writes to the log and emits as events what changed from one status to the next.
func (r *Reconciler) tell(ctx context.Context, before, after *v1alpha1.HarborCluster) {
	log := logf.FromContext(ctx)
	for _, c := range changed(before.Status.Conditions, after.Status.Conditions) {
		log.Info("Changed condition", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
	}
	if before.Status.Status != after.Status.Status {
		log.Info("Changed status", "status", after.Status.Status)
	}
	kube.Emit(r.Events, after, transitions(before.Status, after.Status)...)
}

// changed returns the conditions of the parts that say something new.
func changed(before, after []metav1.Condition) []metav1.Condition {
	var out []metav1.Condition
	for p := range harbor.Count {
		kind := harbor.Part(p).Condition()
		was, is := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(after, kind)
		if is != nil && (was == nil || was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message) {
			out = append(out, *is)
		}
	}
	return out
}

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

var (
	conditionStates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_harborcluster_condition", Help: "1 for the status that a condition of a HarborCluster has, 0 for the others.",
	}, []string{"namespace", "name", "condition", "status"})
	overall = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_harborcluster_status", Help: "1 for the overall status that a HarborCluster has, 0 for the others.",
	}, []string{"namespace", "name", "status"})
)

func init() { metrics.Registry.MustRegister(conditionStates, overall) }

func recordMetrics(c *v1alpha1.HarborCluster) {
	for _, condition := range c.Status.Conditions {
		for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			conditionStates.WithLabelValues(c.Namespace, c.Name, condition.Type, string(s)).Set(one(condition.Status == s))
		}
	}
	for _, s := range []v1alpha1.HarborStatus{v1alpha1.HarborHealthy, v1alpha1.HarborUnhealthy, v1alpha1.HarborCreating} {
		overall.WithLabelValues(c.Namespace, c.Name, string(s)).Set(one(c.Status.Status == s))
	}
}

func forgetMetrics(c types.NamespacedName) {
	labels := prometheus.Labels{"namespace": c.Namespace, "name": c.Name}
	conditionStates.DeletePartialMatch(labels)
	overall.DeletePartialMatch(labels)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
