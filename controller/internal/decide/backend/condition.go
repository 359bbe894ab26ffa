package backend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Summary is all that the conditions of a storage are computed from.
type Summary struct {
	Profile  Profile
	Owner    Owner
	Deleting bool
	// Hosts in the order of their names.
	Hosts []HostHealth
	Whole Whole
	Class Class
	// Driver is how the CSI driver of the class is.
	Driver DriverState
	// Plan as it is going to be shown.
	Plan *v1alpha1.Plan
	// Blocked says what else holds the deletion; empty when nothing does.
	Blocked string
	// Failure is why the last step of the whole failed, FailureReason the reason for a condition; empty when it did not.
	Failure, FailureReason string
	// Trouble is what the API server refused in this pass and no other field says; empty when there was nothing.
	Trouble string
	// Unknown names hosts under maintenance that the storage has nothing to do with, ordered.
	Unknown []string
	// NoHost says that the spec wants no host; empty when it wants one.
	NoHost string
}

// Class is how the StorageClass is.
type Class struct {
	// Exists is true when it exists and is ours.
	Exists bool
	// Conflict says why the name cannot be used; empty when it can.
	Conflict string
	// Failed says why it could not be written; empty when it could.
	Failed string
}

// DriverState is how the CSI driver of a class is.
type DriverState struct {
	// Exists is true while its Deployment does.
	Exists bool
	// Ready is true when it serves.
	Ready bool
	// Failed says why it will not be ready by itself; empty when it may be.
	Failed string
	// Progress says what it waits for; may be empty.
	Progress string
}

// Conditions returns all conditions; Ready, computed from the facts, is the last one.
func (s Summary) Conditions() []metav1.Condition {
	var facts []metav1.Condition
	if s.Profile.Members != nil {
		facts = append(facts, s.hostsValid(), s.membersReady(), s.planApproved())
	}
	facts = append(facts, s.Whole.Facts...)
	facts = append(facts, s.classReady(), s.csiReady())
	ready := s.ready(facts)
	return append(slices.Concat(facts, s.Whole.Warnings, s.Whole.Risks), ready)
}

// Condition makes a condition.
func Condition(t string, s metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: t, Status: s, Reason: reason, Message: message}
}

// UntilUnseen is how long Ready of a storage stays True while every look at it fails. Looks are at most 30 s apart, so that several in a row have failed then. An
// API server that is updated, or that gets another leader of etcd, is back before that, and Ready does not change for it.
const UntilUnseen = 3 * time.Minute

// Unseen returns the condition Ready of a storage at which every look failed for some time; nil when it stays as it is. What was found to be wrong says more than
// that nobody can look. why is a sentence.
func Unseen(ready *metav1.Condition, blind time.Duration, why string) *metav1.Condition {
	if blind < UntilUnseen || ready != nil && ready.Status == metav1.ConditionFalse {
		return nil
	}
	c := Condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonNotSeen, why)
	return &c
}

// Unsupported returns the conditions of a storage that has no backend; why is a sentence.
func Unsupported(why string) []metav1.Condition {
	return []metav1.Condition{Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotYetSupported, why)}
}

func (s Summary) hostsValid() metav1.Condition {
	var reason string
	var lines []string
	for _, h := range s.Hosts {
		if f, ok := h.invalid(); ok {
			reason = Sentence(reason, f.Reason)
			lines = append(lines, h.Node+": "+f.Message)
		}
	}
	if m := s.unknown(); m != "" {
		reason = Sentence(reason, v1alpha1.ReasonMaintenanceUnknown)
		lines = append([]string{m}, lines...)
	}
	if s.NoHost != "" {
		reason = v1alpha1.ReasonNoHost
		lines = append([]string{s.NoHost}, lines...)
	}
	if len(lines) > 0 {
		return Condition(v1alpha1.ConditionHostsValid, metav1.ConditionFalse, reason, Text(lines))
	}
	return Condition(v1alpha1.ConditionHostsValid, metav1.ConditionTrue, v1alpha1.ReasonHostsValid, "Every host exists and may be used.")
}

// unknown says which hosts under maintenance mean nothing; empty when each of them is a host.
func (s Summary) unknown() string {
	if len(s.Unknown) == 0 {
		return ""
	}
	return "spec.maintenance names no host of this " + s.Owner.Kind + ": " + Shorten(s.Unknown, 10)
}

func (s Summary) membersReady() metav1.Condition {
	r := s.Profile.Members
	worst := Well
	var reason string
	var lines []string
	for _, h := range s.Hosts {
		f := h.Finding()
		if _, bad := h.invalid(); bad || h.Removed || f.Kind == Well {
			continue
		}
		if f.Kind > worst {
			worst, reason = f.Kind, f.Reason
		}
		lines = append(lines, h.Node+": "+f.Message)
	}
	if worst != Well {
		return Condition(r.Condition, metav1.ConditionFalse, reason, Text(lines))
	}
	if !s.serves() && !s.Deleting {
		return Condition(r.Condition, metav1.ConditionFalse, v1alpha1.ReasonPending, r.None)
	}
	return Condition(r.Condition, metav1.ConditionTrue, r.Reason, r.Message)
}

func (s Summary) planApproved() metav1.Condition {
	if s.Plan == nil {
		return Condition(v1alpha1.ConditionPlanApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved, "No step waits for approval.")
	}
	if s.Plan.Approved {
		return Condition(v1alpha1.ConditionPlanApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved,
			fmt.Sprintf("The plan %s is approved and carried out.", s.Plan.Digest))
	}
	steps := fmt.Sprintf("%d steps wait", s.Plan.Count)
	if s.Plan.Count == 1 {
		steps = "1 step waits"
	}
	return Condition(v1alpha1.ConditionPlanApproved, metav1.ConditionFalse, v1alpha1.ReasonApprovalRequired, fmt.Sprintf(
		"%s for approval, see status.plan. %s%sTo approve: kubectl annotate --overwrite %s.%s %s %s=%s",
		steps, s.Profile.givenUp(s.Plan.Steps), consents(*s.Plan), strings.ToLower(s.Owner.Kind), v1alpha1.Group, s.Owner.Name, v1alpha1.AnnotationApprove, s.Plan.Digest))
}

// givenUp names the volumes that a plan gives up for good; empty when it does so with none.
func (p Profile) givenUp(steps []v1alpha1.PlanStep) string {
	var volumes []string
	for _, step := range steps {
		// Those of other steps move with them, or are in the thin pool that is repaired.
		if p.Effects[step.Action].GivesUp {
			volumes = append(volumes, step.Volumes...)
		}
	}
	if len(volumes) == 0 {
		return ""
	}
	return fmt.Sprintf("Approving it deletes for good: %s. ", Shorten(volumes, 10))
}

// maxConsents is how many consents a message shows. The room of a message is for the command behind them, too.
const maxConsents = 3

// consents are what whoever approves a plan says by that; empty when it is no more than the approval.
func consents(p v1alpha1.Plan) string {
	var out []string
	for _, step := range p.Steps {
		if step.Consent != "" && !slices.Contains(out, step.Consent) {
			out = append(out, step.Consent)
		}
	}
	if len(out) == 0 {
		return ""
	}
	if more := len(out) - maxConsents; more > 0 || int(p.Count) > len(p.Steps) {
		out = append(out[:min(len(out), maxConsents)], "status.plan, and those of the Members, have the rest of what is said by approving.")
	}
	return strings.Join(out, " ") + " "
}

func (s Summary) classReady() metav1.Condition {
	switch {
	case s.Class.Conflict != "":
		return Condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionFalse, v1alpha1.ReasonNameConflict, s.Class.Conflict)
	case s.Class.Failed != "" && !s.Deleting:
		return Condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionFalse, v1alpha1.ReasonStorageClassFailed, s.Class.Failed)
	case s.Class.Exists:
		return Condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionTrue, v1alpha1.ReasonStorageClassReady,
			fmt.Sprintf("The StorageClass %s exists.", s.Owner.Name))
	case s.Deleting:
		return Condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The StorageClass is deleted.")
	}
	return Condition(v1alpha1.ConditionStorageClassReady, metav1.ConditionFalse, v1alpha1.ReasonPending, s.Whole.Pending)
}

func (s Summary) csiReady() metav1.Condition {
	switch {
	case s.Driver.Failed != "":
		return Condition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonCSIFailed, s.Driver.Failed)
	case s.Driver.Ready:
		return Condition(v1alpha1.ConditionCSIReady, metav1.ConditionTrue, v1alpha1.ReasonCSIReady, "The CSI driver serves.")
	case s.Deleting && !s.Driver.Exists:
		return Condition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The CSI driver is removed.")
	}
	return Condition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonCSIDeploying,
		Sentence(s.Driver.Progress, "The CSI driver is being deployed."))
}

// ready sums up: the first fact that is not true is the reason.
func (s Summary) ready(facts []metav1.Condition) metav1.Condition {
	if s.Deleting {
		return Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting,
			Sentence(s.Message(), fmt.Sprintf("The %s is being deleted.", s.Owner.Kind)))
	}
	reason := s.FailureReason
	var messages []string
	if s.Failure != "" {
		messages = append(messages, s.Failure)
	}
	for _, f := range facts {
		if f.Status != metav1.ConditionTrue {
			reason = Sentence(reason, f.Reason)
			messages = append(messages, f.Message)
		}
	}
	if reason != "" {
		return Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, Text(messages))
	}
	if s.Profile.Members == nil {
		return Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "Volumes are served.")
	}
	var away []string
	for _, h := range s.Hosts {
		if !h.Facts.Up && !h.Facts.TooEarly && !h.Removed {
			away = append(away, h.Node)
		}
	}
	if len(away) > 0 {
		return Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady,
			"Every host serves volumes but those that are away under maintenance: "+Shorten(away, 10))
	}
	return Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "Every host serves volumes.")
}
