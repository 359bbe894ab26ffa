package harborcluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// writeStatus computes the status from the scope and writes it when it changed.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.blind {
		return nil
	}
	after := s.cluster.DeepCopy()
	fill(&after.Status, s)
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
