package storage

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// assess decides about every host and about the whole. It changes nothing but the scope.
func (s *scope) assess() {
	names := s.names()
	s.hosts = make([]backend.HostHealth, 0, len(names))
	for _, n := range names {
		s.hosts = append(s.hosts, s.judge(n))
	}
	s.awaitHeirs()
	s.whole = s.view.Whole(s.hosts)
	s.judgeWhole()
	for i := range s.hosts {
		h := &s.hosts[i]
		h.Held = s.whole.Hold[h.Node]
		if h.Facts.TooEarly {
			s.within(5 * time.Second)
		}
		s.within(h.Leaving.Wake)
		s.within(h.Decided.Wake)
		if h.Decided.Unread {
			s.within(kube.UntilBlind)
		}
	}
	s.plan = s.combined(nil)
	s.within(s.whole.Wake)
}

// combined returns the plan of the storage, without those of some hosts.
func (s *scope) combined(without map[string]bool) *v1alpha1.Plan {
	plans := []backend.MemberPlan{{Plan: s.verdict.Plan}}
	for _, h := range s.hosts {
		if !without[h.Node] {
			plans = append(plans, backend.MemberPlan{Node: h.Node, Plan: h.Verdict.Plan})
		}
	}
	return backend.Combine(plans)
}

// awaitHeirs keeps the lost members whose groups may be on other hosts, until somebody can say. The groups of a storage that is being deleted go
// with it.
func (s *scope) awaitHeirs() {
	for i := range s.hosts {
		h := &s.hosts[i]
		if s.deleting() || !h.Flags.ShouldDestroy() || !s.lost(*h) {
			continue
		}
		if _, h.Heirs = backend.Heir(h.Object, s.hosts); h.Heirs != "" {
			h.Removed = false
		}
	}
}

// judgeWhole decides about the steps of the whole. Their approval stays on the storage until they are over.
func (s *scope) judgeWhole() {
	approval, uid := s.storage.GetAnnotations()[v1alpha1.AnnotationApprove], string(s.owner.UID)
	shown := s.before.StorageStatus().Plan
	s.verdict = backend.Approve(backend.Request{
		Mode: s.common.Approval, UID: uid, Steps: s.whole.Steps, Recorded: backend.WholePlan(uid, shown, approval),
		Approval: approval, Pick: backend.Pick(shown, approval), Offer: s.offer, Silent: s.whole.Silent,
	})
	s.wholeFailure = work.Failure{}
	for _, step := range s.whole.Steps {
		// What guards is told first.
		if f, ok := s.failures[placeOf(step)]; ok && s.wholeFailure == (work.Failure{}) {
			s.wholeFailure = f
		}
	}
}

// judge decides about one host.
func (s *scope) judge(name string) backend.HostHealth {
	node, volumes := s.world.Nodes[name], s.world.On(name)
	h := backend.HostHealth{Node: name, Object: s.members[name], Facts: s.view.Facts(name), Sources: s.sources(name)}
	if words := s.profile.Members; words != nil {
		h.Words = *words
	}
	h.Holding, h.Attached = holding(h.Facts, volumes), s.profile.Driver.Attach
	h.Reported = s.reported(h)
	h.Leaving = s.departure(h, node, volumes)
	h.Taken = s.taken(h)
	h.Flags = backend.FlagsOf(h.Object, h.Facts, len(h.Sources) > 0 || h.Leaving.Active, len(volumes))
	h.State = nodestate.Compute(h.Flags)
	if !h.Flags.ShouldDestroy() {
		h.Invalid = s.invalid(name, node)
	}
	quiesced := h.Flags.ShouldQuiesce() && !h.Flags.ShouldDestroy()
	frozen := h.Object == nil || quiesced
	h.Decided = s.view.Decide(backend.Member{
		Node: name, Object: h.Object, Flags: h.Flags, State: h.State, Frozen: frozen, Lost: backend.Lost(h.Object), Volumes: volumes, Invalid: h.Invalid,
	})
	if frozen {
		// Whatever the backend wants. Under maintenance a plan that waits stays as it is, and so does its approval.
		h.Decided.Steps, h.Decided.Unread = nil, false
	}
	if h.Object != nil {
		h.Verdict = backend.Approve(backend.Request{
			Mode: s.common.Approval, UID: string(h.Object.UID), Steps: h.Decided.Steps, Recorded: h.Object.Status.Plan,
			Approval: h.Object.Annotations[v1alpha1.AnnotationApprove], Offer: s.offer, Silent: !h.Facts.Up || quiesced && !h.Leaving.Active, Veiled: s.veiled(h),
		})
	}
	if f, ok := s.failures[work.Place{Host: name}]; ok && len(h.Decided.Steps) > 0 {
		h.Failure, h.FailureReason = f.Message, f.Reason
	}
	if err := s.troubles[name]; err != nil {
		h.Failure, h.FailureReason = err.Error(), v1alpha1.ReasonStepFailed
	}
	h.WantedAgain = h.Flags.ShouldDestroy() && s.wanted(name)
	h.Removed = s.nothingLeft(h, node, volumes)
	return h
}

// veiled reports whether steps of a host's plan may be away only because nobody knows which devices are on record. Whoever is removed takes no device, so that its plan lacks none for that.
func (s *scope) veiled(h backend.HostHealth) bool {
	if !h.Decided.Unread || h.Object == nil || h.Object.Status.Plan == nil || s.deleting() || h.Leaving.Active || h.Flags.ShouldDestroy() {
		return false
	}
	return slices.ContainsFunc(h.Object.Status.Plan.Steps, func(was v1alpha1.PlanStep) bool {
		return s.profile.Effects[was.Action].Takes && !slices.ContainsFunc(h.Decided.Steps, func(is backend.Step) bool { return is.Digest() == was.Digest })
	})
}

// holding names what keeps a member from being removed: each volume once, by its PersistentVolume if it has one. A person may remove by hand
// what no object names.
func holding(f backend.Facts, volumes []backend.Volume) []string {
	named := func(seen string) bool {
		return slices.ContainsFunc(volumes, func(v backend.Volume) bool { return strings.HasSuffix(v.Handle, "/"+seen) })
	}
	names := slices.DeleteFunc(slices.Clone(f.Holding), named)
	for _, v := range volumes {
		names = append(names, v.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sources names where maintenance of a host is asked for.
func (s *scope) sources(name string) []v1alpha1.MaintenanceSource {
	var out []v1alpha1.MaintenanceSource
	if slices.Contains(s.common.Maintenance, v1alpha1.HostName(name)) {
		out = append(out, v1alpha1.MaintenanceSource(s.owner.Kind))
	}
	if m := s.members[name]; m != nil && m.Spec.Maintenance {
		out = append(out, v1alpha1.MaintenanceMember)
	}
	if s.world.Nodes[name].Maintenance {
		out = append(out, v1alpha1.MaintenanceStorageNode)
	}
	return out
}

// lost reports whether a person's word that a host is lost counts: not while the host itself reports what is recorded or leaves open
// whether that is there, and not before anybody can say. Without a record everything that the host holds is what it may be about.
func (s *scope) lost(h backend.HostHealth) bool {
	return backend.Lost(h.Object) && s.reported(h).Status == metav1.ConditionFalse
}

// taken reports whether a member that is being deleted counts as lost by a person's word.
func (s *scope) taken(h backend.HostHealth) bool {
	return h.Object != nil && !h.Object.DeletionTimestamp.IsZero() && s.lost(h)
}

// reported says whether a host reports what its member has on record.
func (s *scope) reported(h backend.HostHealth) metav1.Condition {
	recorded := h.Object != nil && h.Object.Spec.Group != nil && h.Object.Spec.Group.UUID != ""
	return h.Facts.Reported(recorded, s.holds(h.Node))
}

// departure decides whether a member leaves. A storage that is being deleted takes all of its members with it.
func (s *scope) departure(h backend.HostHealth, node backend.Node, volumes []backend.Volume) backend.Leaving {
	m := h.Object
	if m == nil || !m.DeletionTimestamp.IsZero() {
		return backend.Leaving{}
	}
	d := backend.Departure{
		Now: s.now, Started: s.started, Delay: backend.DefaultRemovalDelay, Maintenance: len(h.Sources) > 0,
		WasMaintenance: len(m.Status.Maintenance) > 0, MovesData: s.profile.MovesData, Lost: s.lost(h),
		Holding: h.Holding, Attached: h.Attached,
		Empty:      len(volumes) == 0 && (h.Facts.Data == nodestate.DataAbsent || s.unused(h, node, volumes) || forgotten(h, node)),
		Unreported: !h.Facts.Up && h.Unreported(),
	}
	if s.common.RemovalDelay != nil {
		d.Delay = s.common.RemovalDelay.Duration
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionLeaving); c != nil && c.Status == "True" {
		d.Since = c.LastTransitionTime.Time
	}
	if s.deleting() {
		if d.Since.IsZero() {
			d.Since = s.now
		}
		return backend.Leaving{
			Active: true, Since: d.Since, Reason: v1alpha1.ReasonOwnerDeleted, Message: "The storage is being deleted.", Delete: true,
		}
	}
	d.Reason, d.Message = backend.Unwanted(s.common, node)
	return d.Leave()
}

// unused reports whether nothing was ever made on a host: what is recorded is written before anything is made. Where the node was used before its Member was
// made, nobody knows until its agent reports; a node that is gone keeps what it has.
func (s *scope) unused(h backend.HostHealth, node backend.Node, volumes []backend.Volume) bool {
	if node.Exists && h.Unreported() {
		return false
	}
	return (h.Object == nil || h.Object.Spec.Group == nil) && len(volumes) == 0 && !s.holds(h.Node)
}

// invalid says why a host may not be used.
func (s *scope) invalid(name string, node backend.Node) *backend.Invalid {
	if i := s.self.Judge(node, s.claimants); i != nil {
		return i
	}
	if s.members[name] != nil {
		return nil
	}
	want := s.owner.MemberName(name)
	for _, m := range s.world.OtherMembers {
		if m.Name == want {
			return &backend.Invalid{Reason: v1alpha1.ReasonNameTaken, Message: "the Member " + want + " belongs to " + m.Spec.Of.Kind + " " +
				m.Spec.Of.Name + " with UID " + string(m.Spec.Of.UID) + ": it is not used, and nothing is done on this host"}
		}
	}
	return nil
}

// nothingLeft reports whether a member that is to be destroyed needs nothing more: it was torn down, was never used, was declared lost,
// or is forgotten.
func (s *scope) nothingLeft(h backend.HostHealth, node backend.Node, volumes []backend.Volume) bool {
	switch {
	case !h.Flags.ShouldDestroy(), len(volumes) > 0, s.running[h.Node], h.Facts.TooEarly:
		return false
	case s.lost(h):
		return len(h.Facts.Holding) == 0
	case h.Facts.Up:
		return h.State == nodestate.Abandoned && len(h.Decided.Steps) == 0 && h.Decided.Finding.Kind != backend.Bad
	}
	return s.unused(h, node, volumes) || forgotten(h, node)
}

// forgotten reports whether a host is a machine that Kubernetes does not know any more, and on which nothing of ours runs. Without volumes
// nothing holds its member (decision 0007): its disks keep what is on them, and our tag.
func forgotten(h backend.HostHealth, node backend.Node) bool { return !node.Exists && h.Facts.Missing }
