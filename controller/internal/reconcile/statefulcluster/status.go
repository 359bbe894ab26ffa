package statefulcluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/adopt"
	"quarry.storage/quarry/controller/internal/decide/stateful/blueprint"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/statefulcluster/gauge"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// writeStatus computes the status from the scope and writes it when it changed.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.blind {
		return nil
	}
	after := s.before.DeepCopy()
	after.Status.FutileReplacements = s.cluster.Status.FutileReplacements
	s.fill(&after.Status)
	gauge.Measure(after)
	wrote, err := kube.WriteStatus(ctx, r.Client, s.before, after)
	if wrote {
		kube.Emit(r.Events, after, transitions(s.before.Status, after.Status)...)
	}
	return err
}

func (s *scope) fill(status *v1alpha1.StatefulClusterStatus) {
	sum := replica.Summarize(s.input)
	if s.decision.Action == replica.Rest {
		status.FutileReplacements = 0
	}
	status.ObservedGeneration = s.cluster.Generation
	status.Away, status.ReadyFor, status.UnreadyFor, status.Plan = s.away(), s.readyFor(), s.unreadyFor(), s.offer()
	status.Replicas, status.ReadyReplicas = int32(sum.Pods), int32(sum.Ready)
	status.AvailableReplicas, status.UpdatedReplicas = int32(sum.Available), int32(sum.Updated)
	leaving := current(s.hashOf(status.CurrentRevision), s.plan.Revision, sum)
	status.UpdateRevision, status.CurrentRevision = s.nameOf(s.plan.Revision), s.nameOf(leaving)
	status.CurrentReplicas = int32(sum.Revisions[leaving])
	if s.history.names != nil {
		status.CollisionCount = nil
		if n := s.history.collisions; n > 0 {
			status.CollisionCount = &n
		}
	}
	status.Selector = s.plan.Selector.String()
	orphans, count := s.orphans()
	status.OrphanedClaims, status.OrphanedClaimCount = orphans, int32(count)
	for _, c := range s.conditions(sum) {
		c.ObservedGeneration = s.cluster.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// maxAway bounds the list in the status.
const maxAway = 100

// away lists the replicas that are out of reach or were a while ago, those that were for the longest time first.
func (s *scope) away() []v1alpha1.ReplicaAway {
	var out []v1alpha1.ReplicaAway
	for _, r := range s.input.Replicas {
		if r.Tally.Looked.IsZero() || r.Fate != "" && r.Phase == replica.Absent {
			continue
		}
		out = append(out, v1alpha1.ReplicaAway{
			Identity: r.Identity, Seconds: int32(r.Away / time.Second), Looked: metav1.NewTime(r.Looked), Message: s.input.Away(r),
		})
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.ReplicaAway) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return out[:min(len(out), maxAway)]
}

// readyFor lists for how long replicas were seen ready. Nobody is left out: who is, counts anew.
func (s *scope) readyFor() []v1alpha1.ReplicaReady {
	var out []v1alpha1.ReplicaReady
	for _, r := range s.input.Replicas {
		if r.Steady == (replica.Steady{}) {
			continue
		}
		one := v1alpha1.ReplicaReady{Identity: r.Identity, Since: metav1.NewTime(r.Steady.Since), Seconds: int32(r.Steady.For / time.Second)}
		if !r.Steady.Looked.IsZero() {
			one.Looked = new(metav1.NewTime(r.Steady.Looked))
		}
		out = append(out, one)
	}
	return out
}

// unreadyFor lists for how long replicas were seen not ready. Nobody is left out: who is, counts anew.
func (s *scope) unreadyFor() []v1alpha1.ReplicaUnready {
	var out []v1alpha1.ReplicaUnready
	for _, r := range s.input.Replicas {
		if r.Late == (replica.Late{}) || r.Fate != "" {
			continue
		}
		one := v1alpha1.ReplicaUnready{Identity: r.Identity, Since: metav1.NewTime(r.Late.Since), Seconds: int32(r.Late.For / time.Second)}
		if !r.Late.Looked.IsZero() {
			one.Looked = new(metav1.NewTime(r.Late.Looked))
		}
		out = append(out, one)
	}
	return out
}

// offer is the plan that people are shown; nil when nobody is asked.
func (s *scope) offer() *v1alpha1.ReplicaPlan {
	p := s.input.Plan
	if p == nil {
		return nil
	}
	return &v1alpha1.ReplicaPlan{Digest: p.Digest, Offer: p.Offer, Identities: p.Replicas, Approved: p.Approved}
}

// current is the revision that is being left: the one that was, while a replica has it, else one that a replica has.
func current(was, wanted string, sum replica.Summary) string {
	if sum.Updated == sum.Pods {
		return wanted
	}
	if was != wanted && sum.Revisions[was] > 0 {
		return was
	}
	var oldest string
	for revision := range sum.Revisions {
		if revision != wanted && (oldest == "" || revision < oldest) {
			oldest = revision
		}
	}
	return oldest
}

// conditions computes all conditions; Ready is the first of the others that is not true. What holds a removal up says more than that there
// is something to remove, so it comes first.
func (s *scope) conditions(sum replica.Summary) []metav1.Condition {
	replicas := s.replicasReady(sum)
	strays := adopt.Tell(s.strays)
	if strays != "" {
		replicas.Message += " " + strays
	}
	facts := []metav1.Condition{s.specValid(), s.removalAllowed(), replicas}
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: strings.TrimSpace(fmt.Sprintf("All %d replicas are ready. %s", s.input.Desired, strays)),
	}
	for _, f := range facts {
		if f.Status != metav1.ConditionTrue {
			ready.Status, ready.Reason, ready.Message = f.Status, f.Reason, f.Message
			break
		}
	}
	return append(facts, ready, s.allFieldsUsed())
}

func yes(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func (s *scope) specValid() metav1.Condition {
	if len(s.faults) > 0 {
		return no(v1alpha1.ConditionSpecValid, v1alpha1.ReasonInvalidSpec, blueprint.Describe(s.faults))
	}
	return yes(v1alpha1.ConditionSpecValid, v1alpha1.ReasonSpecValid, "Replicas can be made from the spec.")
}

func (s *scope) replicasReady(sum replica.Summary) metav1.Condition {
	const kind = v1alpha1.ConditionReplicasReady
	count := fmt.Sprintf("%d of %d replicas are ready.", sum.Ready, s.input.Desired)
	switch {
	case s.trouble.reason != "":
		return no(kind, s.trouble.reason, count+" "+strings.TrimSuffix(s.trouble.message, ".")+".")
	case len(s.faults) > 0 && sum.Ready < s.input.Desired:
		return no(kind, v1alpha1.ReasonInvalidSpec, count+" None is made or removed while the spec is not valid.")
	case len(s.faults) > 0 || s.decision.Action == replica.Rest:
		return yes(kind, v1alpha1.ReasonReplicasReady, count)
	}
	return no(kind, s.decision.Reason, count+" "+s.decision.Message)
}

func (s *scope) removalAllowed() metav1.Condition {
	if s.blocked != "" {
		return no(v1alpha1.ConditionRemovalAllowed, v1alpha1.ReasonDisruptionBudget, s.blocked)
	}
	return yes(v1alpha1.ConditionRemovalAllowed, v1alpha1.ReasonRemovalAllowed, "No disruption budget keeps a replica that should go.")
}

func (s *scope) allFieldsUsed() metav1.Condition {
	unused := blueprint.WithoutUse(&s.cluster.Spec)
	if len(unused) > 0 {
		return no(v1alpha1.ConditionAllFieldsUsed, v1alpha1.ReasonFieldsWithoutUse, "These fields have no meaning here: "+strings.Join(unused, ", ")+".")
	}
	return yes(v1alpha1.ConditionAllFieldsUsed, v1alpha1.ReasonAllFieldsUsed, "Every field of the spec has a meaning.")
}
