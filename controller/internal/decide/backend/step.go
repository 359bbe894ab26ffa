package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Step is one change. Each backend has step types of its own; the engine orders, shows and approves them.
type Step interface {
	// Host that it happens on; empty for a step of the whole storage.
	Host() string
	// Via is the host that a step of the whole runs on; empty otherwise.
	Via() string
	// Action is one of the constants v1alpha1.ActionXxx.
	Action() string
	// Destroys reports whether the step destroys what somebody else wrote.
	Destroys() bool
	// Vouches reports whether whoever approves the step vouches for how things are at that time, such as that a node is off. The approval is used up once
	// the step is taken, or not needed for the first time. Its digest covers what is vouched for. It implies Destroys.
	Vouches() bool
	// Later reports whether the step cannot run yet: it is shown and approved now.
	Later() bool
	// Digest identifies the step by what it does to what.
	Digest() string
	// API returns the step as it is shown in a status.
	API() v1alpha1.PlanStep
}

// Restorer is a step that may only bring back what was there before, such as the sessions of a node that was booted, or end what was begun.
type Restorer interface {
	// Restores reports whether it does no more than that: nobody is asked to approve it once more.
	Restores() bool
}

// Restores reports whether a step only brings back what was there before.
func Restores(s Step) bool {
	r, ok := s.(Restorer)
	return ok && r.Restores() && !s.Destroys()
}

// Guard is a step of the whole that may keep data from harm whatever else is under way, such as that what a node did not write yet reaches no disk any more. A step that nothing
// may wait for, and that was approved with another one, can be one as well.
type Guard interface {
	// Guards names the job that the step is in; it is empty for a step in the job of its host or of the whole. Mostly such a step guards something, and else nothing may wait for it. Such a job waits for no approval, no other step, and nothing that
	// holds a deletion up. Its steps run on no host.
	Guards() string
}

// Guards returns what a step says that it guards; empty for one that a person has to approve.
func Guards(s Step) string {
	if g, ok := s.(Guard); ok && !s.Destroys() {
		return g.Guards()
	}
	return ""
}

// Independent is a step that nothing after it stands on.
type Independent interface {
	// Independent reports whether the steps after it in its job are taken even if it fails.
	Independent() bool
}

// IsIndependent reports whether the steps after one are taken even if it fails.
func IsIndependent(s Step) bool {
	i, ok := s.(Independent)
	return ok && i.Independent()
}

// Apart is a step of the whole on which no other step hangs, and that hangs on none.
type Apart interface {
	// Apart reports whether a person can approve the step without those that are shown with it.
	Apart() bool
}

// apart reports whether a person can approve a step by itself. One by which that person vouches is approved with its plan.
func apart(s Step) bool {
	a, ok := s.(Apart)
	return ok && s.Host() == "" && !s.Vouches() && a.Apart()
}

// Pick returns the digest of the step that an approval is about by itself, if it is one of a step of the plan that is shown: the digest of the plan, a slash, and that of the step. It is empty for any
// other approval.
func Pick(shown *v1alpha1.Plan, approval string) string {
	plan, step, one := ofStep(approval)
	if !one || shown == nil || shown.Digest != plan {
		return ""
	}
	return step
}

// ofStep takes an approval apart that is of one step of a plan. It reports whether the approval is that; with any other one there is no step.
func ofStep(approval string) (plan, step string, one bool) { return strings.Cut(approval, "/") }

// picked returns the bound step that a person approved by itself; none for no such one. over: it was offered, and is not any more.
func (r Request) picked(bound []Step) (steps []Step, over bool) {
	meant := func(digest string) bool { return r.Pick != "" && digest == r.Pick }
	if r.Recorded == nil || !slices.ContainsFunc(r.Recorded.Steps, func(p v1alpha1.PlanStep) bool { return meant(p.Digest) }) {
		return nil, false
	}
	i := slices.IndexFunc(bound, func(s Step) bool { return meant(s.Digest()) })
	switch {
	case i < 0:
		return nil, true
	case !apart(bound[i]) || !r.offered(bound):
		return nil, false
	}
	return bound[i : i+1 : i+1], false
}

// guards returns the steps that guard, and the others.
func guards(steps []Step) (guard, rest []Step) {
	for _, s := range steps {
		if Guards(s) != "" {
			guard = append(guard, s)
		} else {
			rest = append(rest, s)
		}
	}
	return guard, rest
}

// Steps are the steps of one host in their order. Before each of them it is looked whether it may still be taken: an error in its place
// says why not, and ends them.
type Steps iter.Seq2[Step, error]

// Checked returns steps that a function is asked about, each right before it is to be taken.
func Checked(steps []Step, may func(Step) error) Steps {
	return func(yield func(Step, error) bool) {
		for _, s := range steps {
			err := may(s)
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// DigestOf returns the digest over an ordered list of steps.
func DigestOf(steps []Step) string {
	all := make([]string, 0, len(steps))
	for _, s := range steps {
		all = append(all, s.Digest())
	}
	return Digest(all)
}

// Digest returns the first 128 bits of the SHA-256 of the JSON of a value that has no maps in it.
func Digest(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		// Strings and integers always marshal; should a type be added that does not, no approval must match.
		raw = []byte(err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// StepError is why a step failed.
type StepError struct {
	// Reason of a condition.
	Reason string
	// Passing is true for an error that the next look takes in: the world moved under the decision, or somebody was busy or went away. It
	// is shown only when it happens again.
	Passing bool
	Err     error
}

// Error returns the message of the error.
func (e *StepError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *StepError) Unwrap() error { return e.Err }

// JoinErrors returns what is to be said of several steps that failed, whatever order they came in; nil if none did. It passes only if each of them does.
func JoinErrors(failed []error) error {
	if len(failed) < 2 {
		return errors.Join(failed...)
	}
	out, texts := &StepError{Passing: true}, make([]string, 0, len(failed))
	// A status is not to change with the order.
	for _, err := range slices.SortedFunc(slices.Values(failed), func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) {
		e := &StepError{Reason: v1alpha1.ReasonStepFailed}
		errors.As(err, &e)
		if texts = append(texts, err.Error()); out.Reason == "" || out.Passing && !e.Passing {
			out.Reason, out.Passing = e.Reason, e.Passing
		}
	}
	out.Err = errors.New(strings.Join(texts, "; "))
	return out
}

// veiled sorts the steps that are seen while others are not. What a person approved of these runs; what else needs approval waits until all can be seen. stays is false where the recorded plan does not stay:
// all steps can be seen, or nobody approved it and one is needed that it does not have.
func (r Request) veiled(free, bound []Step, approved bool) (v Verdict, stays bool) {
	if !r.Veiled || r.Recorded == nil || !approved && !within(bound, r.Recorded) {
		return Verdict{}, false
	}
	p := still(r.Recorded, bound)
	p.Approved = approved
	if !approved || !within(bound, r.Recorded) || !r.vouched(bound) {
		bound = nil
	}
	return Verdict{Run: now(slices.Concat(free, bound)), Plan: p}, true
}

// within reports whether an approved plan covers steps.
func within(steps []Step, approved *v1alpha1.Plan) bool {
	for _, s := range steps {
		d := s.Digest()
		if !slices.ContainsFunc(approved.Steps, func(a v1alpha1.PlanStep) bool { return a.Digest == d }) {
			return false
		}
	}
	return true
}

// still returns a plan that vouches for nothing more than what is needed still; nil for none.
func still(p *v1alpha1.Plan, steps []Step) *v1alpha1.Plan {
	if p == nil {
		return nil
	}
	p = p.DeepCopy()
	p.Vouched = vouchedFor(p.Vouched, steps)
	return p
}

// vouchedFor returns those of some digests that are of steps which are needed.
func vouchedFor(digests []string, steps []Step) []string {
	return slices.DeleteFunc(slices.Clone(digests), func(d string) bool {
		return !slices.ContainsFunc(steps, func(s Step) bool { return s.Digest() == d })
	})
}
