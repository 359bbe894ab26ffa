package statefulcluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/blueprint"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// scope holds the facts of one pass. The status is computed from all of them at its end.
type scope struct {
	// before is the StatefulCluster as it was read, cluster the one that is changed.
	before, cluster *v1alpha1.StatefulCluster
	now             time.Time
	plan            *blueprint.Blueprint
	faults          []blueprint.Fault
	// pods that the StatefulCluster owns, by identity too, and its claims.
	pods       []corev1.Pod
	byIdentity map[string]int
	claims     []corev1.PersistentVolumeClaim
	nodes      nodes
	// input of the decision, and the decision.
	input    replica.Input
	decision replica.Decision
	// trouble is why the action did not succeed; its reason is empty when it did.
	trouble trouble
	// blocked says which disruption budget keeps a replica; empty when none does. retryAfter is when to ask again.
	blocked    string
	retryAfter time.Duration
	// confirmed is true when the API server itself was asked, and not a cache.
	confirmed bool
	// removed is true when the victim of the decision is being deleted.
	removed bool
	// blind is true when the world could not be observed: the status says nothing new then.
	blind bool
}

// trouble is a failure as a condition tells it.
type trouble struct{ reason, message string }

// after returns when the StatefulCluster is looked at again even if nothing happens; zero when there is no need to.
func (s *scope) after() time.Duration {
	if s.retryAfter > 0 {
		return s.retryAfter
	}
	return s.decision.After
}

// setPods says which pods there are.
func (s *scope) setPods(pods []corev1.Pod) {
	s.pods, s.byIdentity = pods, make(map[string]int, len(pods))
	for i := range pods {
		s.byIdentity[pods[i].Labels[v1alpha1.LabelIdentity]] = i
	}
}

// podOf returns the pod of an identity; nil when there is none.
func (s *scope) podOf(identity string) *corev1.Pod {
	if i, ok := s.byIdentity[identity]; ok {
		return &s.pods[i]
	}
	return nil
}

// pod returns the pod of a name; nil when there is none.
func (s *scope) pod(name string) *corev1.Pod {
	for i := range s.pods {
		if s.pods[i].Name == name {
			return &s.pods[i]
		}
	}
	return nil
}

// leaves reports whether a pod is being deleted.
func (s *scope) leaves(p *corev1.Pod) bool {
	return !p.DeletionTimestamp.IsZero() || s.removed && s.decision.Victim == p.Name
}
