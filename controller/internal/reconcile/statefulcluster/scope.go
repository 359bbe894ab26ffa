package statefulcluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/adopt"
	"quarry.storage/quarry/controller/internal/decide/stateful/blueprint"
	"quarry.storage/quarry/controller/internal/decide/stateful/disk"
	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/decide/stateful/record"
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
	// pods that the StatefulCluster owns, its claims, and what both are of.
	pods []corev1.Pod
	// labelledPods are all with the label of the name. Of those takeovers are adopted, and strays are not. unowned counts those with an identity that nobody controls and
	// that have not ended, standing those of them whose replica was not given up, and abandoned are the claims of all such pods.
	labelledPods      []corev1.Pod
	takeovers         []adopt.Takeover
	strays            []adopt.Stray
	unowned, standing int
	abandoned         []*corev1.PersistentVolumeClaim
	claims            []corev1.PersistentVolumeClaim
	identities        []*record.Identity
	// labelled are all claims with the label of the name, also those of a deleted StatefulCluster.
	labelled []corev1.PersistentVolumeClaim
	nodes    nodes.Nodes
	members  []v1alpha1.Member
	// trust is how far the status of each Member counts, by name.
	trust map[string]disk.Trust
	// capacities that are published; nil while nobody needed to know.
	capacities []storagev1.CSIStorageCapacity
	// made is what the API server would make of the template; nil while nobody needed to know.
	made *corev1.Pod
	// input of the decision, and the decision.
	input    replica.Input
	decision replica.Decision
	// trouble is why the action did not succeed; its reason is empty when it did.
	trouble trouble
	// kept are the pods that a disruption budget kept in this pass, blocked says which budget; empty when none does. retryAfter is when to ask again.
	kept       map[string]bool
	blocked    string
	retryAfter time.Duration
	// history of the templates.
	history remembrance
	// confirmed is true when the API server itself was asked, and not a cache.
	confirmed bool
	// blind is true when the world could not be observed, or was changed since: the status says nothing new then.
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

// gather puts pods and claims together.
func (s *scope) gather() { s.identities = record.Gather(s.pods, s.claims, s.plan.Naming()) }

// identity returns the identity of a name; nil when there is none.
func (s *scope) identity(name string) *record.Identity {
	for _, i := range s.identities {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// remember brings for how long each replica was out of reach, ready and not ready up to now, and the plan that people are shown. Both are kept in the status, which may be
// lost: that costs patience, and an approval once more.
func (s *scope) remember() {
	known := map[string]replica.Tally{}
	for _, a := range s.before.Status.Away {
		known[a.Identity] = replica.Tally{Away: time.Duration(a.Seconds) * time.Second, Looked: a.Looked.Time}
	}
	steady := map[string]replica.Steady{}
	for _, a := range s.before.Status.ReadyFor {
		one := replica.Steady{Since: a.Since.Time, For: time.Duration(a.Seconds) * time.Second}
		if a.Looked != nil {
			one.Looked = a.Looked.Time
		}
		steady[a.Identity] = one
	}
	late := map[string]replica.Late{}
	for _, a := range s.before.Status.UnreadyFor {
		one := replica.Late{Since: a.Since.Time, For: time.Duration(a.Seconds) * time.Second}
		if a.Looked != nil {
			one.Looked = a.Looked.Time
		}
		late[a.Identity] = one
	}
	for i := range s.input.Replicas {
		one := &s.input.Replicas[i]
		one.Late = late[one.Identity].Next(s.input, *one)
		one.Steady = steady[one.Identity].Next(s.input, *one)
		one.Tally = known[one.Identity].Next(s.input, *one)
	}
	if p := s.before.Status.Plan; p != nil {
		s.input.Plan = &replica.Plan{Digest: p.Digest, Offer: p.Offer, Replicas: p.Identities, Approved: p.Approved}
	}
	s.input.Plan = replica.Offer(s.input, string(s.cluster.UID), s.cluster.Annotations[v1alpha1.AnnotationApprove])
}
