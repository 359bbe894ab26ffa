package plan

import (
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Verdict says which steps run now.
type Verdict struct {
	// Run may be taken, in order.
	Run []decide.Step
	// Plan is what needs the user's approval, as shown in the status; nil when nothing does.
	Plan *v1alpha1.Plan
	// UsedUp is true when the approval that was given has been carried out: it must not serve a second time.
	UsedUp bool
}

// Waiting says whether a step waits for approval.
func (v Verdict) Waiting() bool { return v.Plan != nil && !v.Plan.Approved }

// Approve sorts steps into those that run and those that wait. recorded is the plan in the status, approval the value of the
// annotation. An approved plan goes on while what is left of it is a part of what was approved; it is not over while a host that
// it is about does not report, which silent tells.
func Approve(mode v1alpha1.Approval, steps []decide.Step, recorded *v1alpha1.Plan, approval string, silent func(host string) bool) Verdict {
	free, bound := split(mode, steps)
	approved := recorded != nil && approval == recorded.Digest
	if len(bound) == 0 && (!approved || !recorded.Approved) {
		return Verdict{Run: free}
	}
	if len(bound) == 0 && !slices.ContainsFunc(recorded.Steps, func(s v1alpha1.PlanStep) bool { return silent(s.Host) }) {
		return Verdict{Run: free, UsedUp: true}
	}
	if approved && within(bound, recorded.Steps) {
		p := recorded.DeepCopy()
		p.Approved = true
		return Verdict{Run: steps, Plan: p}
	}
	p := &v1alpha1.Plan{Digest: decide.DigestOf(bound), Steps: make([]v1alpha1.PlanStep, 0, len(bound))}
	for _, s := range bound {
		p.Steps = append(p.Steps, s.API())
	}
	p.Approved = approval == p.Digest
	if p.Approved {
		return Verdict{Run: steps, Plan: p}
	}
	return Verdict{Run: free, Plan: p}
}

// split returns the steps that need no approval, and those that do. On every host a wipe binds the steps after it.
func split(mode v1alpha1.Approval, steps []decide.Step) (free, bound []decide.Step) {
	if mode == v1alpha1.ApprovalManual {
		return nil, steps
	}
	held := map[string]bool{}
	for _, s := range steps {
		if s.Destroys() {
			held[s.Host] = true
		}
		if held[s.Host] {
			bound = append(bound, s)
			continue
		}
		free = append(free, s)
	}
	return free, bound
}

func within(steps []decide.Step, approved []v1alpha1.PlanStep) bool {
	for _, s := range steps {
		d := s.Digest()
		if !slices.ContainsFunc(approved, func(a v1alpha1.PlanStep) bool { return a.Digest == d }) {
			return false
		}
	}
	return true
}
