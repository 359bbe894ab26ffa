package backend

import (
	"slices"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Request is what the decision about the steps of one host is made on.
type Request struct {
	// Mode of the spec.
	Mode v1alpha1.Approval
	// UID of the Member: its approval never serves for another Member of the name.
	UID string
	// Steps that are left.
	Steps []Step
	// Recorded is the plan in the status; nil when there is none.
	Recorded *v1alpha1.Plan
	// Approval is the value of the annotation; empty when there is none.
	Approval string
	// Silent is true while the host does not report: its plan is neither over nor void.
	Silent bool
}

// Verdict says which steps of a host run now.
type Verdict struct {
	// Run may be taken, in order.
	Run []Step
	// Plan is what needs approval; nil when nothing does.
	Plan *v1alpha1.Plan
	// UsedUp is true when the approval that was given has been carried out: it must not serve a second time.
	UsedUp bool
	// Dropped is true when an approval was given that fits no plan.
	Dropped bool
}

// Waiting reports whether a step waits for approval.
func (v Verdict) Waiting() bool { return v.Plan != nil && !v.Plan.Approved }

// Approve sorts steps into those that run and those that wait. An approved plan goes on while what is left of it is a part of what was
// approved.
func Approve(r Request) Verdict {
	free, bound := split(r.Mode, r.Steps)
	approved := r.Recorded != nil && r.Approval != "" && r.Approval == r.Recorded.Digest && r.Recorded.Digest == digestOfPlan(r.UID, r.Recorded.Steps)
	if r.Silent {
		// The recorded plan stays as it is until the host reports.
		return Verdict{Plan: r.Recorded}
	}
	if len(bound) == 0 {
		over := approved && r.Recorded.Approved
		return Verdict{Run: now(free), UsedUp: over, Dropped: r.Approval != "" && !over}
	}
	if approved && within(bound, r.Recorded.Steps) {
		p := r.Recorded.DeepCopy()
		p.Approved = true
		return Verdict{Run: now(r.Steps), Plan: p}
	}
	p := planOf(r.UID, bound)
	p.Approved = r.Approval == p.Digest
	if p.Approved {
		return Verdict{Run: now(r.Steps), Plan: p}
	}
	return Verdict{Run: now(free), Plan: p, Dropped: r.Approval != ""}
}

func planOf(uid string, steps []Step) *v1alpha1.Plan {
	p := &v1alpha1.Plan{Count: int32(len(steps)), Steps: make([]v1alpha1.PlanStep, 0, len(steps))}
	for _, s := range steps {
		api := s.API()
		api.Later = s.Later()
		p.Steps = append(p.Steps, api)
	}
	p.Digest = digestOfPlan(uid, p.Steps)
	return p
}

// digestOfPlan covers the UID of the Member: a plan that came with the status of an earlier Member of the name has another digest.
func digestOfPlan(uid string, steps []v1alpha1.PlanStep) string {
	digests := []string{uid}
	for _, s := range steps {
		digests = append(digests, s.Digest)
	}
	return Digest(digests)
}

// split returns the steps that need no approval, and those that do. A step that destroys binds the steps after it.
func split(mode v1alpha1.Approval, steps []Step) (free, bound []Step) {
	if mode == v1alpha1.ApprovalManual {
		return nil, steps
	}
	i := slices.IndexFunc(steps, func(s Step) bool { return s.Destroys() })
	if i < 0 {
		return steps, nil
	}
	return steps[:i:i], steps[i:]
}

// now returns the steps up to the first that cannot run yet.
func now(steps []Step) []Step {
	if i := slices.IndexFunc(steps, func(s Step) bool { return s.Later() }); i >= 0 {
		return steps[:i]
	}
	return steps
}

func within(steps []Step, approved []v1alpha1.PlanStep) bool {
	for _, s := range steps {
		d := s.Digest()
		if !slices.ContainsFunc(approved, func(a v1alpha1.PlanStep) bool { return a.Digest == d }) {
			return false
		}
	}
	return true
}

// MemberPlan is the plan of one member.
type MemberPlan struct {
	Node string
	Plan *v1alpha1.Plan
}

// Combine returns the plan of a whole storage: the count, the first steps, and a digest over the plans that wait. It is approved once
// none waits. Members are taken in the order of their nodes.
func Combine(plans []MemberPlan) *v1alpha1.Plan {
	plans = slices.DeleteFunc(slices.Clone(plans), func(p MemberPlan) bool { return p.Plan == nil })
	if len(plans) == 0 {
		return nil
	}
	waiting := slices.DeleteFunc(slices.Clone(plans), func(p MemberPlan) bool { return p.Plan.Approved })
	out := &v1alpha1.Plan{Approved: len(waiting) == 0, Steps: []v1alpha1.PlanStep{}}
	if len(waiting) > 0 {
		plans = waiting
	}
	var digests []string
	for _, p := range plans {
		digests = append(digests, p.Node+" "+p.Plan.Digest)
		out.Count += int32(len(p.Plan.Steps))
		for _, s := range p.Plan.Steps {
			if len(out.Steps) < v1alpha1.MaxPlanSteps {
				out.Steps = append(out.Steps, s)
			}
		}
	}
	out.Digest = Digest(digests)
	return out
}
