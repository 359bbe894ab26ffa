package backend

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// maxReason is the length in bytes of the reason of a step on a Member, briefReason on a storage, which shows not more than
	// briefDevices of its devices and of its volumes. maxConsent is that of what is said by approving a step, which a person has to see before.
	maxReason    = 512
	maxConsent   = 512
	briefReason  = 200
	briefDevices = 3
	// maxPlan is about the size in bytes of the steps that a storage shows.
	maxPlan = 8 << 10
	// maxWhole is the number of steps of the whole whose digests are recorded. A longer plan needs another approval when a part of it is over.
	maxWhole = 1000
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
	// Approval is the value of the annotation; empty when there is none. Pick is the digest of the one step that it is about, as the function of that name says.
	Approval, Pick string
	// Offer is that of a plan which is shown from now on: what names this process, a dash, and a number that it gave to nothing before.
	Offer string
	// Silent is true while the host does not report: its plan is neither over nor void.
	Silent bool
	// Veiled is true while steps that take devices may be missing only because nobody knows whose these are: what is recorded of the plan, and its approval, are neither over nor void.
	// All other steps are what they are.
	Veiled bool
}

// Verdict says which steps of a host run now.
type Verdict struct {
	// Run may be taken, in order.
	Run []Step
	// Plan is what needs approval; nil when nothing does.
	Plan *v1alpha1.Plan
	// UsedUp is true when the approval that was given has been carried out: it must not serve a second time.
	UsedUp bool
	// Over is true when the approval that is used up was of one step: that step was taken, or cannot be taken now, and nobody can tell which.
	Over bool
	// Dropped is true when an approval was given that fits no plan.
	Dropped bool
	// Picked is true when the approval is of one step, which runs, while the plan waits.
	Picked bool
}

// Waiting reports whether a step waits for approval.
func (v Verdict) Waiting() bool { return v.Plan != nil && !v.Plan.Approved }

// Approve sorts steps into those that run and those that wait. An approved plan goes on while what is left of it is a part of what was
// approved. A step that vouches is a part of it until it is not needed for the first time, and as long as the process works that offered the plan.
func Approve(r Request) Verdict {
	free, bound := split(r.Mode, r.Steps)
	approved := r.approved()
	if r.Silent {
		// The recorded plan stays until the host reports. What a person vouched for may have changed meanwhile.
		guard, _ := guards(free)
		return Verdict{Run: guard, Plan: still(r.Recorded, bound)}
	}
	if v, stays := r.veiled(free, bound, approved); stays {
		return v
	}
	picked, over := r.picked(bound)
	if len(bound) == 0 {
		// Steps may be over within the very look in which the approval came: no status has shown the plan as approved then.
		return Verdict{Run: now(free), UsedUp: approved || over, Over: over, Dropped: r.Approval != "" && !approved && !over}
	}
	if approved && within(bound, r.Recorded) && r.vouched(bound) {
		p := still(r.Recorded, bound)
		p.Approved = true
		return Verdict{Run: now(slices.Concat(free, bound)), Plan: p}
	}
	offer := r.Offer
	if r.offered(bound) {
		offer = r.Recorded.Offer
	}
	one := len(picked) > 0
	return Verdict{Run: now(slices.Concat(free, picked)), Plan: planOf(r.UID, offer, bound), UsedUp: over, Over: over, Picked: one, Dropped: r.Approval != "" && !over && !one}
}

// approved reports whether a person approved the plan that was shown last.
func (r Request) approved() bool {
	p := r.Recorded
	return p != nil && r.Approval != "" && r.Approval == p.Digest && p.Digest == digestOfPlan(r.UID, p.Offer, p.Steps)
}

// offered reports whether steps are those of the plan that was shown last, and whoever approves that one now approves them. What was shown before, was not needed once, and
// is needed again, is offered anew, so that no approval of before is one of it. Of a very long plan only the first steps are recorded.
func (r Request) offered(steps []Step) bool {
	p := r.Recorded
	if p == nil || p.Offer == "" || len(p.Steps) > len(steps) || len(p.Steps) < len(steps) && len(steps) <= maxWhole {
		return false
	}
	for i, s := range p.Steps {
		if s.Digest != steps[i].Digest() {
			return false
		}
	}
	return r.vouched(steps)
}

// vouched reports whether the plan that was shown last covers what is vouched for by steps: each was needed ever since it was shown, and this process has shown it. An
// approval that another process finds may be one of long ago, which a backup brought back.
func (r Request) vouched(steps []Step) bool {
	shown, _, _ := strings.Cut(r.Recorded.Offer, "-")
	here, _, _ := strings.Cut(r.Offer, "-")
	return !slices.ContainsFunc(steps, func(s Step) bool {
		return s.Vouches() && (shown != here || !slices.Contains(r.Recorded.Vouched, s.Digest()))
	})
}

// Holds says why a step of a plan that was decided on as approved may not be begun any more; nil when it may. approval and recorded are the annotation, and the plan in the status, of now.
func Holds(s Step, mode v1alpha1.Approval, plan, recorded *v1alpha1.Plan, approval string) error {
	d := s.Digest()
	_, one, _ := ofStep(approval)
	switch {
	case plan != nil && !plan.Approved && binds(mode, s) && one != d:
		return fmt.Errorf("the approval of the step was taken away, or used up, meanwhile: if the step is needed still, it is offered again")
	case plan == nil || !plan.Approved || !binds(mode, s) || !slices.ContainsFunc(plan.Steps, func(p v1alpha1.PlanStep) bool { return p.Digest == d }):
		return nil
	case approval != plan.Digest:
		return fmt.Errorf("the approval of plan %s was taken away, or used up, meanwhile: if the step is needed still, it is offered again", plan.Digest)
	case s.Vouches() && (recorded == nil || !slices.Contains(recorded.Vouched, d)):
		return fmt.Errorf("it was not needed for a while since plan %s was approved: if it is needed again, it is offered again", plan.Digest)
	}
	return nil
}

func planOf(uid, offer string, steps []Step) *v1alpha1.Plan {
	p := &v1alpha1.Plan{Offer: offer, Count: int32(len(steps)), Steps: make([]v1alpha1.PlanStep, 0, len(steps))}
	for _, s := range steps {
		api := s.API()
		api.Later, api.Reason, api.Consent = s.Later(), Cut(api.Reason, maxReason), Cut(api.Consent, maxConsent)
		p.Steps = append(p.Steps, api)
		if s.Vouches() {
			p.Vouched = append(p.Vouched, api.Digest)
		}
	}
	p.Digest = digestOfPlan(uid, offer, p.Steps)
	return p
}

// digestOfPlan covers the UID of the Member: a plan that came with the status of an earlier Member of the name has another digest. A plan of an earlier controller has
// no offer.
func digestOfPlan(uid, offer string, steps []v1alpha1.PlanStep) string {
	digests := []string{uid}
	if offer != "" {
		digests = append(digests, offer)
	}
	for _, s := range steps {
		digests = append(digests, s.Digest)
	}
	return Digest(digests)
}

// split returns the steps that need no approval, and those that do. A step that destroys binds the steps after it, and so does, where all is approved, one that does
// more than to restore what was there. What guards comes first, and waits for nobody.
func split(mode v1alpha1.Approval, steps []Step) (free, bound []Step) {
	guard, rest := guards(steps)
	i := slices.IndexFunc(rest, func(s Step) bool { return binds(mode, s) })
	if i < 0 {
		return slices.Concat(guard, rest), nil
	}
	return slices.Concat(guard, rest[:i]), rest[i:]
}

// Free reports whether steps can be taken of which nobody is asked. What waits for a person is looked at again when that person said something.
func Free(mode v1alpha1.Approval, steps []Step) bool {
	free, _ := split(mode, steps)
	return len(free) > 0
}

// binds reports whether a step needs approval by itself.
func binds(mode v1alpha1.Approval, s Step) bool {
	return s.Destroys() || mode == v1alpha1.ApprovalManual && !Restores(s) && Guards(s) == ""
}

// now returns the steps up to the first that cannot run yet.
func now(steps []Step) []Step {
	if i := slices.IndexFunc(steps, func(s Step) bool { return s.Later() }); i >= 0 {
		return steps[:i:i]
	}
	return steps
}

// MemberPlan is the plan of one member, or with an empty node that of the whole.
type MemberPlan struct {
	Node string
	Plan *v1alpha1.Plan
}

// Combine returns the plan of a whole storage: the count, the first steps, and a digest over the plans that wait. It is approved once
// none waits. Plans are taken in their order. The plan of the whole is shown even if it is approved and others wait: only there it is.
func Combine(plans []MemberPlan) *v1alpha1.Plan {
	plans = slices.DeleteFunc(slices.Clone(plans), func(p MemberPlan) bool { return p.Plan == nil })
	if len(plans) == 0 {
		return nil
	}
	out := &v1alpha1.Plan{Steps: []v1alpha1.PlanStep{}}
	out.Approved = !slices.ContainsFunc(plans, func(p MemberPlan) bool { return !p.Plan.Approved })
	var digests []string
	room := maxPlan
	for _, p := range plans {
		counts := out.Approved || !p.Plan.Approved
		if counts {
			digests = append(digests, p.Node+" "+p.Plan.Digest)
			out.Count += int32(len(p.Plan.Steps))
		}
		if !counts && p.Node != "" {
			continue
		}
		if p.Node == "" {
			out.Whole, out.Vouched, out.Offer = digestsOf(p.Plan.Steps), p.Plan.Vouched, p.Plan.Offer
		}
		for _, s := range p.Plan.Steps {
			if s.Action == "" {
				// Only its digest is recorded.
				break
			}
			s = brief(s)
			if room -= sizeOf(s); room > 0 && len(out.Steps) < v1alpha1.MaxPlanSteps {
				out.Steps = append(out.Steps, s)
			}
		}
	}
	out.Digest = Digest(digests)
	return out
}

// digestsOf returns the digests of the steps of the whole, as they are recorded.
func digestsOf(steps []v1alpha1.PlanStep) []string {
	if len(steps) > maxWhole {
		return nil
	}
	out := make([]string, 0, len(steps))
	for _, s := range steps {
		out = append(out, s.Digest)
	}
	return out
}

// WholePlan returns the plan of the whole as the plan of a storage records it; nil when there is none. Steps that are not shown have a
// digest only. approval is the value of the annotation on the storage: once the plan is approved it is the digest of the plan of the whole.
func WholePlan(uid string, shown *v1alpha1.Plan, approval string) *v1alpha1.Plan {
	if shown == nil {
		return nil
	}
	p := &v1alpha1.Plan{Offer: shown.Offer, Vouched: shown.Vouched}
	for _, s := range shown.Steps {
		if s.Host == "" {
			p.Steps = append(p.Steps, s)
		}
	}
	// What is shown are the first steps of all.
	for _, digest := range shown.Whole[min(len(p.Steps), len(shown.Whole)):] {
		p.Steps = append(p.Steps, v1alpha1.PlanStep{Digest: digest})
	}
	if len(p.Steps) == 0 {
		return nil
	}
	p.Count, p.Digest = int32(len(p.Steps)), digestOfPlan(uid, p.Offer, p.Steps)
	p.Approved = approval == p.Digest
	return p
}
