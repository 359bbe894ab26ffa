package backend

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// HostHealth is all that is known and decided about one host.
type HostHealth struct {
	Node string
	// Words of the backend about its members.
	Words Readiness
	// Object is its Member; nil while there is none.
	Object *v1alpha1.Member
	Flags  nodestate.Flags
	State  nodestate.State
	// Sources name where maintenance was asked for.
	Sources []v1alpha1.MaintenanceSource
	Facts   Facts
	// Reported is the condition that says whether the host reports what is on record.
	Reported metav1.Condition
	Leaving  Leaving
	// Taken is true once the Member is being deleted, and a person's word that it is lost counts. The word cannot be taken back any more.
	Taken bool
	// Invalid is why the host may not be used; nil when it may.
	Invalid *Invalid
	// Decided is what the backend decided.
	Decided Host
	// Holding names what keeps the member from being removed, ordered. Attached is true for a driver that attaches its volumes.
	Holding  []string
	Attached bool
	// Heirs names the members of which nobody can say whether they have the group of this lost one; empty when there is no such doubt.
	Heirs string
	// Verdict on its steps.
	Verdict Verdict
	// Held is the reason why the storage as a whole keeps the steps of the host back; empty when it does not.
	Held string
	// Failure is why the last step failed, FailureReason the reason for a condition; empty when it did not.
	Failure, FailureReason string
	// WantedAgain is true when the host is to be a member again once it was removed.
	WantedAgain bool
	// Removed is true when nothing is left of the member but the object.
	Removed bool
}

// Finding says how the host is. The first thing that is wrong counts.
func (h HostHealth) Finding() Finding {
	for _, judge := range []func() (Finding, bool){h.invalid, h.removal, h.unreachable, h.failure, h.departure} {
		if f, ok := judge(); ok {
			return f
		}
	}
	if !h.Decided.Finding.IsZero() {
		return h.Decided.Finding
	}
	return h.underWay()
}

// Unreported reports whether something may have been made on the host before its Member was, and nobody has said since whether it is there.
func (h HostHealth) Unreported() bool {
	return h.Object != nil && h.Object.Spec.Group == nil && h.Object.Spec.Ceph == nil && h.Object.Annotations[v1alpha1.AnnotationUnreported] != ""
}

func (h HostHealth) invalid() (Finding, bool) {
	if h.Invalid == nil || h.Flags.ShouldDestroy() || h.Leaving.Active {
		return Finding{}, false
	}
	return Finding{Bad, h.Invalid.Reason, h.Invalid.Message}, true
}

// removal is the member that is being removed.
func (h HostHealth) removal() (Finding, bool) {
	switch {
	case !h.Flags.ShouldDestroy():
		return Finding{}, false
	case h.Failure != "":
		return Finding{Bad, h.FailureReason, h.Failure}, true
	case len(h.Holding) > 0 && h.Words.Forgets != "":
		return h.owing(), true
	case len(h.Holding) > 0:
		return Finding{
			Bad, v1alpha1.ReasonVolumesExist,
			"is being removed and waits until its volumes are " + freed(h.Attached) + ": " + Shorten(h.Holding, 10),
		}, true
	case h.Heirs != "":
		return Finding{
			Bad, v1alpha1.ReasonLost, "is declared lost, and stays until it is known where its volume group is, which is on record for " + h.Heirs +
				" too, and nobody can say whether it is there",
		}, true
	case !h.Facts.Up && !h.Removed:
		f := Finding{Bad, v1alpha1.ReasonAgentUnreachable, "is being removed and waits for its agent: " + Sentence(h.Facts.Problem, "it does not answer")}
		if h.Unreported() {
			f.Message += ". " + unreportedText
		}
		return f, true
	case h.Verdict.Waiting():
		return Finding{Waiting, v1alpha1.ReasonApprovalRequired, "its removal waits for approval"}, true
	case h.Decided.Finding.Kind == Bad:
		return h.Decided.Finding, true
	case h.WantedAgain:
		return Finding{Busy, v1alpha1.ReasonPreparing, "is being removed; as the spec lists it again, it is used afresh afterwards"}, true
	}
	return Finding{Busy, v1alpha1.ReasonPreparing, "is being removed"}, true
}

// owing is the lost member of a backend that moves data: no volume has to go for it.
func (h HostHealth) owing() Finding {
	f := Finding{Bad, v1alpha1.ReasonDraining, "is being removed and stays until " + h.Words.Forgets + " what it had: " + Shorten(h.Holding, 10) + ". No volume has to be deleted"}
	if h.Decided.Finding.Kind == Bad {
		f.Reason, f.Message = h.Decided.Finding.Reason, f.Message+". It "+h.Decided.Finding.Message
	}
	return f
}

func (h HostHealth) unreachable() (Finding, bool) {
	switch {
	case h.Facts.Up:
		return Finding{}, false
	case len(h.Sources) > 0:
		if was := h.before(); was.ofHost() {
			return was, true
		}
		return Finding{Well, "", "is under maintenance and not reachable"}, true
	case h.Facts.TooEarly && h.Decided.Serves:
		return h.before(), true
	case h.Facts.TooEarly:
		return connecting(), true
	}
	return Finding{Bad, Sentence(h.Facts.Reason, v1alpha1.ReasonAgentUnreachable), Sentence(h.Facts.Problem, "the agent does not answer")}, true
}

// connecting is the host of which nobody can say anything yet.
func connecting() Finding {
	return Finding{Busy, v1alpha1.ReasonPending, "the connection to the agent is being made"}
}

// before is what was found the last time that somebody could say. A host that was not ready is not ready because nobody can look, and one whose status
// is gone, as after a restore, may not have been.
func (h HostHealth) before() Finding {
	if h.Object == nil {
		return connecting()
	}
	if c := meta.FindStatusCondition(h.Object.Status.Conditions, v1alpha1.ConditionSound); c != nil && c.Status == metav1.ConditionFalse {
		return Finding{Bad, c.Reason, c.Message}
	}
	was := meta.FindStatusCondition(h.Object.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case h.Leaving.Active, was != nil && was.Status == metav1.ConditionTrue:
		return Finding{Well, "", h.Object.Status.Message}
	case was == nil:
		return connecting()
	}
	switch was.Reason {
	case v1alpha1.ReasonMaintenance, v1alpha1.ReasonDeleting, v1alpha1.ReasonVolumesExist, v1alpha1.ReasonHostNotFound, v1alpha1.ReasonHostConflict,
		v1alpha1.ReasonNameTaken, v1alpha1.ReasonOwnerMissing, v1alpha1.ReasonHostNotListed, v1alpha1.ReasonHostNotSelected, v1alpha1.ReasonOwnerDeleted:
		// The API server tells of it, now as then. It has ended, or another finding says so. What was below it nobody knows.
		return connecting()
	case v1alpha1.ReasonPreparing, v1alpha1.ReasonPending:
		return Finding{Busy, was.Reason, was.Message}
	case v1alpha1.ReasonApprovalRequired:
		return Finding{Waiting, was.Reason, was.Message}
	}
	return Finding{Bad, was.Reason, was.Message}
}

// ofHost reports whether a finding says what is wrong on a host, and not only that nobody hears it.
func (f Finding) ofHost() bool {
	return f.Kind == Bad && f.Reason != v1alpha1.ReasonAgentUnreachable && f.Reason != v1alpha1.ReasonAgentMissing
}

// Sound returns the condition that remembers what was wrong the last time that the host could say; nil when nothing was. Ready of a host that falls silent
// says that it is silent, which maintenance excuses: what was lost before stays lost. A backend that moves data sees without the host what is lost.
func (h HostHealth) Sound() *metav1.Condition {
	found := h.Decided.Finding
	switch {
	case h.Words.Forgets != "", h.Object == nil, h.Facts.Up && h.Decided.Reports && found.Kind != Bad:
		return nil
	case !h.Facts.Up || found.Kind != Bad:
		if found = h.before(); !found.ofHost() {
			return nil
		}
	}
	c := Condition(v1alpha1.ConditionSound, metav1.ConditionFalse, Sentence(found.Reason, v1alpha1.ReasonPending), found.Message)
	return &c
}

func (h HostHealth) failure() (Finding, bool) {
	if h.Failure == "" {
		return Finding{}, false
	}
	return Finding{Bad, h.FailureReason, h.Failure}, true
}

// departure is the member that leaves: nothing is wrong with it, and a person should know what it waits for.
func (h HostHealth) departure() (Finding, bool) {
	if !h.Leaving.Active {
		return Finding{}, false
	}
	if h.Decided.Finding.Kind == Bad {
		return h.Decided.Finding, true
	}
	return Finding{Well, h.Leaving.Reason, h.Leaving.Message}, true
}

func (h HostHealth) underWay() Finding {
	switch {
	case len(h.Decided.Steps) == 0:
		return Finding{}
	case h.Held != "":
		return Finding{Busy, v1alpha1.ReasonPending, h.Held}
	case h.Verdict.Waiting():
		return Finding{Waiting, v1alpha1.ReasonApprovalRequired, Sentence(h.Words.Unapproved, "its steps wait for approval")}
	}
	return Finding{Busy, v1alpha1.ReasonPreparing, Sentence(h.Words.Preparing, "is being prepared")}
}

// Ready returns the condition Ready of the Member.
func (h HostHealth) Ready() metav1.Condition {
	f := h.Finding()
	switch {
	case f.Kind != Well:
		return Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, Sentence(f.Reason, v1alpha1.ReasonPending), f.Message)
	case h.Flags.ShouldDestroy(), h.Leaving.Active:
		return Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, Sentence(f.Reason, v1alpha1.ReasonDeleting), f.Message)
	case len(h.Sources) > 0:
		return Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMaintenance,
			Sentence(f.Message, "The member is under maintenance and takes no new volumes."))
	case !h.Facts.Up && !h.Facts.TooEarly:
		return Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAgentUnreachable, f.Message)
	}
	return Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, Sentence(f.Message, "The member serves volumes."))
}

func (s Summary) serves() bool {
	for _, h := range s.Hosts {
		if h.Decided.Serves && !h.Removed {
			return true
		}
	}
	return false
}
