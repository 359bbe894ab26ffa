package backend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// step is a step of a backend that exists in tests only.
type step struct {
	host, via, name string
	// reason that is shown; empty for a short one.
	reason   string
	destroys bool
	vouches  bool
	later    bool
}

func (s step) Host() string   { return s.host }
func (s step) Via() string    { return s.via }
func (s step) Action() string { return s.name }
func (s step) Destroys() bool { return s.destroys }
func (s step) Vouches() bool  { return s.vouches }
func (s step) Later() bool    { return s.later }
func (s step) Digest() string { return Digest([]string{s.host, s.name}) }
func (s step) API() v1alpha1.PlanStep {
	return v1alpha1.PlanStep{Host: s.host, Action: s.name, Reason: Sentence(s.reason, "because"), Digest: s.Digest()}
}

func take(name string) step { return step{host: "n1", name: "take " + name} }

func wipe(name string) step { return step{host: "n1", name: "wipe " + name, destroys: true} }

// wipeAndTake are the steps of a host with one clean disk and two to wipe.
func wipeAndTake() []Step {
	return []Step{take("a"), wipe("b"), take("b"), wipe("c"), take("c")}
}

func show(steps []Step) string {
	var names []string
	for _, s := range steps {
		names = append(names, s.Action())
	}
	return strings.Join(names, ", ")
}

// ask returns a request in a mode, with what was recorded and approved before.
func ask(mode v1alpha1.Approval, steps []Step, recorded *v1alpha1.Plan, approval string) Request {
	return Request{Mode: mode, UID: "m-uid", Steps: steps, Recorded: recorded, Approval: approval, Offer: "here-1"}
}

// approved returns the plan of steps as it is recorded once a person has approved it.
func approved(t *testing.T, steps []Step) *v1alpha1.Plan {
	t.Helper()
	shown := Approve(ask(v1alpha1.ApprovalManual, steps, nil, "")).Plan
	recorded := Approve(ask(v1alpha1.ApprovalManual, steps, shown, shown.Digest)).Plan
	if !recorded.Approved || recorded.Digest != shown.Digest {
		t.Fatal("the approval was not seen")
	}
	return recorded
}

func TestApprove_automaticHoldsBackWipesOnly(t *testing.T) {
	steps := wipeAndTake()
	v := Approve(ask(v1alpha1.ApprovalAutomatic, steps, nil, ""))
	if d := cmp.Diff("take a", show(v.Run)); d != "" {
		t.Errorf("steps that run, -want +got:\n%s", d)
	}
	if !v.Waiting() || len(v.Plan.Steps) != 4 || v.Plan.Count != 4 || v.UsedUp || v.Dropped {
		t.Errorf("%+v", v)
	}
	// What ran by itself was no part of the plan, so the digest stands.
	if after := Approve(ask(v1alpha1.ApprovalAutomatic, steps[1:], v.Plan, "")); after.Plan.Digest != v.Plan.Digest {
		t.Error("the digest changed even if what waits did not")
	}
	if v := Approve(ask(v1alpha1.ApprovalAutomatic, steps[:1], nil, "")); show(v.Run) != "take a" || v.Plan != nil || v.Waiting() {
		t.Errorf("without a wipe: %+v", v)
	}
}

func TestApprove_manualHoldsBackEverything(t *testing.T) {
	v := Approve(ask(v1alpha1.ApprovalManual, wipeAndTake(), nil, ""))
	if len(v.Run) != 0 || !v.Waiting() || len(v.Plan.Steps) != 5 {
		t.Errorf("%+v", v)
	}
}

func TestApprove_wrongDigestApprovesNothing(t *testing.T) {
	for _, mode := range []v1alpha1.Approval{v1alpha1.ApprovalAutomatic, v1alpha1.ApprovalManual} {
		v := Approve(ask(mode, wipeAndTake(), nil, "0123"))
		for _, s := range v.Run {
			if s.Destroys() {
				t.Errorf("%s: a wipe runs without approval", mode)
			}
		}
		if !v.Dropped {
			t.Errorf("%s: nobody is told that the approval fits no plan", mode)
		}
	}
	if v := Approve(ask(v1alpha1.ApprovalManual, nil, nil, "0123")); !v.Dropped || v.UsedUp {
		t.Errorf("with nothing to do: %+v", v)
	}
}

func TestApprove_goesOnAfterEveryInterruption(t *testing.T) {
	steps := wipeAndTake()
	recorded := approved(t, steps)
	for done := range steps {
		v := Approve(ask(v1alpha1.ApprovalManual, steps[done:], recorded, recorded.Digest))
		if len(v.Run) != len(steps)-done || v.UsedUp || v.Dropped || v.Plan.Digest != recorded.Digest || !v.Plan.Approved {
			t.Errorf("after %d steps: %+v", done, v)
		}
	}
	if v := Approve(ask(v1alpha1.ApprovalManual, nil, recorded, recorded.Digest)); !v.UsedUp || v.Plan != nil || v.Dropped {
		t.Errorf("at the end: %+v", v)
	}
}

func TestApprove_newStepAsksAgain(t *testing.T) {
	steps := wipeAndTake()
	recorded := approved(t, steps)
	v := Approve(ask(v1alpha1.ApprovalManual, append(steps[2:], take("x")), recorded, recorded.Digest))
	if len(v.Run) != 0 || !v.Waiting() || !v.Dropped {
		t.Errorf("%+v", v)
	}
}

func TestApprove_takingTheApprovalBackStops(t *testing.T) {
	steps := wipeAndTake()
	v := Approve(ask(v1alpha1.ApprovalManual, steps[1:], approved(t, steps), ""))
	if len(v.Run) != 0 || !v.Waiting() || v.Dropped {
		t.Errorf("%+v", v)
	}
}

func TestApprove_isNotUsedUpWhileTheHostIsSilent(t *testing.T) {
	recorded := approved(t, wipeAndTake())
	r := ask(v1alpha1.ApprovalManual, nil, recorded, recorded.Digest)
	r.Silent = true
	if v := Approve(r); v.UsedUp || v.Dropped || v.Plan == nil || !v.Plan.Approved || len(v.Run) != 0 {
		t.Errorf("%+v", v)
	}
}

// TestApprove_veiled: while steps that take devices may be missing, their plan and its approval stay, and all other steps go on as ever.
func TestApprove_veiled(t *testing.T) {
	grow, repair := step{host: "n1", name: "grow the pool"}, step{host: "n1", name: "repair", destroys: true}
	before := Approve(ask(v1alpha1.ApprovalAutomatic, []Step{wipe("b"), repair}, nil, "")).Plan
	wiped := Approve(ask(v1alpha1.ApprovalAutomatic, []Step{wipe("b")}, nil, "")).Plan
	for name, row := range map[string]struct {
		steps    []Step
		recorded *v1alpha1.Plan
		approval string
		run      string
		// plan is the digest of the plan that is shown; empty for another one than is recorded.
		plan     string
		approved bool
	}{
		"nothing is left":                        {nil, wiped, "", "", wiped.Digest, false},
		"nothing is left, and it is approved":    {nil, wiped, wiped.Digest, "", wiped.Digest, true},
		"an approval that may fit later":         {nil, wiped, "another", "", wiped.Digest, false},
		"a step that takes nothing":              {[]Step{grow}, wiped, "", "grow the pool", wiped.Digest, false},
		"that, and it is approved":               {[]Step{grow}, wiped, wiped.Digest, "grow the pool", wiped.Digest, true},
		"a part of the plan waits":               {[]Step{grow, repair}, before, "", "grow the pool", before.Digest, false},
		"that part is approved":                  {[]Step{grow, repair}, before, before.Digest, "grow the pool, repair", before.Digest, true},
		"what the plan does not have is offered": {[]Step{grow, repair}, wiped, "", "grow the pool", "", false},
		"but for no approval that was given":     {[]Step{grow, repair}, wiped, wiped.Digest, "grow the pool", wiped.Digest, true},
	} {
		r := ask(v1alpha1.ApprovalAutomatic, row.steps, row.recorded, row.approval)
		r.Veiled = true
		v := Approve(r)
		kept := v.Plan != nil && v.Plan.Digest == row.recorded.Digest
		if v.Plan == nil || show(v.Run) != row.run || kept != (row.plan != "") || v.Plan.Approved != row.approved || v.UsedUp || v.Dropped {
			t.Errorf("%s: it runs %q, %+v, plan %+v", name, show(v.Run), v, v.Plan)
		}
	}
}

func TestApprove_servesForOneMemberOnly(t *testing.T) {
	steps := wipeAndTake()
	recorded := approved(t, steps)
	// An object of the same name was restored, with the status and the annotations of the one before.
	r := ask(v1alpha1.ApprovalManual, steps, recorded, recorded.Digest)
	r.UID = "restored"
	v := Approve(r)
	if len(v.Run) != 0 || !v.Waiting() || v.Plan.Digest == recorded.Digest || !v.Dropped {
		t.Errorf("%+v", v)
	}
	if r.Steps = nil; Approve(r).UsedUp {
		t.Error("an approval that never served is used up")
	}
}

func TestApprove_laterStepsAreShownAndDoNotRun(t *testing.T) {
	later := step{host: "n1", name: "later", later: true}
	steps := []Step{take("a"), later, take("b")}
	if v := Approve(ask(v1alpha1.ApprovalAutomatic, steps, nil, "")); show(v.Run) != "take a" || v.Plan != nil {
		t.Errorf("%+v", v)
	}
	recorded := approved(t, steps)
	if len(recorded.Steps) != 3 || !recorded.Steps[1].Later || recorded.Steps[0].Later {
		t.Errorf("%+v", recorded.Steps)
	}
	if v := Approve(ask(v1alpha1.ApprovalManual, steps, recorded, recorded.Digest)); show(v.Run) != "take a" {
		t.Errorf("%+v", v)
	}
	// Once it can run it is the same step.
	later.later = false
	if v := Approve(ask(v1alpha1.ApprovalManual, []Step{later, take("b")}, recorded, recorded.Digest)); show(v.Run) != "later, take b" {
		t.Errorf("%+v", v)
	}
}

func TestCombine(t *testing.T) {
	plan := func(digest string, steps int, approved bool) *v1alpha1.Plan {
		p := &v1alpha1.Plan{Digest: digest, Approved: approved, Count: int32(steps)}
		for i := range steps {
			p.Steps = append(p.Steps, v1alpha1.PlanStep{Action: fmt.Sprintf("%s%d", digest, i)})
		}
		return p
	}
	if got := Combine([]MemberPlan{{Node: "n1"}}); got != nil {
		t.Errorf("%+v", got)
	}
	waiting := Combine([]MemberPlan{{"n1", plan("a", 2, false)}, {"n2", plan("b", 3, true)}, {"n3", nil}, {"n4", plan("c", 30, false)}})
	if waiting.Approved || waiting.Count != 32 || len(waiting.Steps) != v1alpha1.MaxPlanSteps || waiting.Steps[2].Action != "c0" {
		t.Errorf("%+v", waiting)
	}
	// What is approved already does not matter to what waits, nor does who else comes and goes.
	if same := Combine([]MemberPlan{{"n1", plan("a", 2, false)}, {"n4", plan("c", 30, false)}}); same.Digest != waiting.Digest {
		t.Error("an approved plan voids an approval of the others")
	}
	if other := Combine([]MemberPlan{{"n2", plan("a", 2, false)}, {"n4", plan("c", 30, false)}}); other.Digest == waiting.Digest {
		t.Error("the plan of another host has the same digest")
	}
	running := Combine([]MemberPlan{{"n1", plan("a", 2, true)}, {"n2", plan("b", 3, true)}})
	if !running.Approved || running.Count != 5 || len(running.Steps) != 5 {
		t.Errorf("%+v", running)
	}
}

func TestDigestOf_order(t *testing.T) {
	a, b := take("a"), take("b")
	if DigestOf([]Step{a, b}) == DigestOf([]Step{b, a}) || DigestOf(nil) == DigestOf([]Step{a}) {
		t.Error("different plans have one digest")
	}
}

func TestApprove_isUsedUpWithinOneLook(t *testing.T) {
	shown := Approve(ask(v1alpha1.ApprovalManual, wipeAndTake(), nil, "")).Plan
	// The status shows the plan as it waited; the approval came and all steps ran since.
	if v := Approve(ask(v1alpha1.ApprovalManual, nil, shown, shown.Digest)); !v.UsedUp || v.Dropped {
		t.Errorf("%+v", v)
	}
}

func TestCombine_isBounded(t *testing.T) {
	p := &v1alpha1.Plan{Digest: "d"}
	for range 30 {
		p.Steps = append(p.Steps, v1alpha1.PlanStep{
			Action: "wipe", Host: strings.Repeat("h", 253), Reason: strings.Repeat("r", maxReason), Devices: slices.Repeat([]string{strings.Repeat("d", 100)}, 60),
		})
	}
	got := Combine([]MemberPlan{{"n1", p}})
	raw, err := json.Marshal(got)
	if err != nil || len(raw) > maxPlan+200 || got.Count != 30 || len(got.Steps) < 5 {
		t.Errorf("%d bytes, %d steps of %d, %v", len(raw), len(got.Steps), got.Count, err)
	}
	if s := got.Steps[0]; len(s.Devices) != briefDevices+1 || s.Devices[briefDevices] != "and 57 more" || len(s.Reason) > briefReason+len("…") {
		t.Errorf("%+v", s)
	}
	// The reason of a step of the whole is shown nowhere else.
	p.Steps[0].Host = ""
	if s := Combine([]MemberPlan{{"", p}}).Steps[0]; len(s.Reason) != maxReason {
		t.Errorf("%+v", s)
	}
	if len(p.Steps[0].Devices) != 60 {
		t.Error("the plan of the member was changed")
	}
}

// The plan of the whole is kept nowhere but in the plan of the storage.
func TestWholePlan(t *testing.T) {
	steps := []Step{step{name: "a", via: "n1"}, step{name: "b", via: "n1"}}
	whole := Approve(ask(v1alpha1.ApprovalManual, steps, nil, "")).Plan
	member := Approve(ask(v1alpha1.ApprovalManual, wipeAndTake(), nil, "")).Plan
	shown := Combine([]MemberPlan{{"", whole}, {"n1", member}})
	if shown.Count != 7 || len(shown.Steps) != 7 || shown.Digest == whole.Digest {
		t.Errorf("%+v", shown)
	}
	if got := WholePlan("m-uid", shown, ""); got.Digest != whole.Digest || got.Approved || len(got.Steps) != 2 {
		t.Errorf("%+v", got)
	}
	if WholePlan("m-uid", Combine([]MemberPlan{{"n1", member}}), "") != nil || WholePlan("m-uid", nil, "") != nil {
		t.Error("a plan of the whole was found where none is")
	}
}

// Once the plan of the whole is approved it still is shown while a member's plan waits, and is no part of what is asked for.
func TestWholePlan_approved(t *testing.T) {
	steps := []Step{step{name: "a", via: "n1"}, step{name: "b", via: "n1"}}
	whole := Approve(ask(v1alpha1.ApprovalManual, steps, nil, "")).Plan
	member := Approve(ask(v1alpha1.ApprovalManual, wipeAndTake(), nil, "")).Plan
	whole.Approved = true
	shown := Combine([]MemberPlan{{"", whole}, {"n1", member}})
	if shown.Count != 5 || len(shown.Steps) != 7 || shown.Approved || shown.Digest != Combine([]MemberPlan{{"n1", member}}).Digest {
		t.Errorf("%+v", shown)
	}
	recorded := WholePlan("m-uid", shown, whole.Digest)
	if !recorded.Approved {
		t.Errorf("%+v", recorded)
	}
	if v := Approve(ask(v1alpha1.ApprovalManual, steps[1:], recorded, whole.Digest)); show(v.Run) != "b" || v.Dropped {
		t.Errorf("after the first step: %+v", v)
	}
}

// An approval covers all steps of the whole, even if the storage shows only the first ones: whichever of them are left.
func TestWholePlan_approvalOfMoreStepsThanAreShown(t *testing.T) {
	for name, reason := range map[string]string{"more than 20": "", "more than 8 KiB": strings.Repeat("r", briefReason)} {
		var steps []Step
		for i := range v1alpha1.MaxPlanSteps + 1 {
			steps = append(steps, step{name: fmt.Sprintf("s%02d", i), reason: reason, via: "n1"})
		}
		whole := Approve(ask(v1alpha1.ApprovalManual, steps, nil, "")).Plan
		plan := Combine([]MemberPlan{{"", whole}})
		digest := whole.Digest
		for done := range steps {
			if plan.Count != int32(len(steps)) || len(plan.Steps) > v1alpha1.MaxPlanSteps {
				t.Fatalf("%s: %d steps of %d are shown", name, len(plan.Steps), plan.Count)
			}
			if slices.ContainsFunc(plan.Steps, func(s v1alpha1.PlanStep) bool { return s.Action == "" }) {
				t.Fatalf("%s: a step is shown that only has a digest: %+v", name, plan.Steps)
			}
			recorded := WholePlan("m-uid", plan, digest)
			v := Approve(ask(v1alpha1.ApprovalManual, steps[done:], recorded, digest))
			if v.Dropped || len(v.Run) != len(steps)-done || !v.Plan.Approved || v.Plan.Digest != digest {
				t.Fatalf("%s: after %d steps: %+v", name, done, v)
			}
			plan = Combine([]MemberPlan{{"", v.Plan}})
		}
		if v := Approve(ask(v1alpha1.ApprovalManual, nil, WholePlan("m-uid", plan, digest), digest)); !v.UsedUp || v.Dropped {
			t.Errorf("%s: at the end: %+v", name, v)
		}
		// A step that nobody approved still voids it.
		if v := Approve(ask(v1alpha1.ApprovalManual, []Step{step{name: "other", via: "n1"}}, WholePlan("m-uid", plan, digest), digest)); !v.Dropped || len(v.Run) != 0 {
			t.Errorf("%s: another step: %+v", name, v)
		}
	}
}

// A status of an earlier controller has no digests beside what it shows.
func TestWholePlan_ofAnEarlierController(t *testing.T) {
	whole := Approve(ask(v1alpha1.ApprovalManual, []Step{step{name: "a", via: "n1"}}, nil, "")).Plan
	shown := Combine([]MemberPlan{{"", whole}})
	if shown.Whole = nil; WholePlan("m-uid", shown, "").Digest != whole.Digest {
		t.Error("its plan is another one")
	}
}

// Who adds to the steps that run now must not write over those that come later: both may be parts of one slice.
func TestApprove_stepsThatRunAreTheCallers(t *testing.T) {
	steps := []Step{take("a"), step{host: "n1", name: "b", later: true}}
	v := Approve(ask(v1alpha1.ApprovalAutomatic, steps, nil, ""))
	_ = append(v.Run, take("other"))
	if show(v.Run) != "take a" || show(steps) != "take a, b" {
		t.Errorf("run %s, steps %s", show(v.Run), show(steps))
	}
}

// restoring is a step that may only bring back what was there.
type restoring struct {
	step
	restores bool
}

func (s restoring) Restores() bool { return s.restores }

// TestApprove_restores: where every plan is approved, what only brings back what was there runs by itself, up to the first step that does more.
func TestApprove_restores(t *testing.T) {
	back, destroys := restoring{step{host: "n1", name: "login"}, true}, restoring{step{host: "n1", name: "wipe", destroys: true}, true}
	other := restoring{step{host: "n1", name: "renew"}, false}
	for name, c := range map[string]struct {
		steps     []Step
		run, plan string
	}{
		"all":                   {[]Step{back, back}, "login, login", ""},
		"another one first":     {[]Step{other, back}, "", "renew, login"},
		"another one behind":    {[]Step{back, other, back}, "login", "renew, login"},
		"one that destroys":     {[]Step{destroys, back}, "", "wipe, login"},
		"one that says nothing": {[]Step{take("a")}, "", "take a"},
	} {
		v := Approve(ask(v1alpha1.ApprovalManual, c.steps, nil, ""))
		var waits []string
		if v.Plan != nil {
			for _, s := range v.Plan.Steps {
				waits = append(waits, s.Action)
			}
		}
		if show(v.Run) != c.run || strings.Join(waits, ", ") != c.plan {
			t.Errorf("%s: runs %q, waits %q", name, show(v.Run), waits)
		}
	}
}

// single is a step on which no other one hangs.
type single struct{ step }

func (s single) Apart() bool { return true }

// told is what becomes of an approval, and what runs.
func told(v Verdict) string {
	what := "none"
	switch {
	case v.Picked:
		what = "picked"
	case v.UsedUp:
		what = "used up"
	case v.Dropped:
		what = "dropped"
	}
	return what + ": " + show(v.Run)
}

// TestApprove_apart: a person approves one step of a plan. The others wait, and that approval serves for no other offer, and for no step that hangs on another one.
func TestApprove_apart(t *testing.T) {
	one, two, hangs := single{step{name: "one", destroys: true}}, single{step{name: "two", destroys: true}}, step{name: "hangs", destroys: true}
	steps := []Step{take("a"), one, two, hangs}
	shown := Approve(ask(v1alpha1.ApprovalAutomatic, steps, nil, "")).Plan
	for name, tt := range map[string]struct {
		steps []Step
		pick  Step
		want  string
	}{
		"one of two":                   {steps, two, "picked: take a, two"},
		"it is over":                   {[]Step{take("a"), one, hangs}, two, "used up: take a"},
		"all is over":                  {[]Step{take("a")}, two, "used up: take a"},
		"another step since":           {[]Step{one, two, single{step{name: "three", destroys: true}}, hangs}, two, "dropped: "},
		"a step that hangs on another": {steps, hangs, "dropped: take a"},
		"a step that is not shown":     {steps, wipe("x"), "dropped: take a"},
	} {
		r := ask(v1alpha1.ApprovalAutomatic, tt.steps, shown, shown.Digest+"/"+tt.pick.Digest())
		r.Pick = Pick(shown, r.Approval)
		v := Approve(r)
		if got := told(v); got != tt.want || v.Over != v.UsedUp {
			t.Errorf("%s: %s, want %s; over: %v", name, got, tt.want, v.Over)
		}
		if v.Plan != nil && (v.Plan.Approved || (v.Plan.Digest == shown.Digest) != (len(tt.steps) == len(steps) && name != "another step since")) {
			t.Errorf("%s: %+v", name, v.Plan)
		}
	}
}

// TestHolds_apart: right before a step that was approved by itself that approval has to be there.
func TestHolds_apart(t *testing.T) {
	one, two := single{step{name: "one", destroys: true}}, single{step{name: "two", destroys: true}}
	shown := Approve(ask(v1alpha1.ApprovalAutomatic, []Step{one, two}, nil, "")).Plan
	for approval, holds := range map[string]bool{"": false, shown.Digest: false, shown.Digest + "/" + one.Digest(): false, shown.Digest + "/" + two.Digest(): true} {
		if err := Holds(two, v1alpha1.ApprovalAutomatic, shown, shown, approval); (err == nil) != holds {
			t.Errorf("approval %q: %v", approval, err)
		}
	}
}

// TestPick: an approval is of one step only if it names the plan that is shown.
func TestPick(t *testing.T) {
	shown := &v1alpha1.Plan{Digest: "p"}
	for approval, want := range map[string]string{"p/s": "s", "p": "", "x/s": "", "": "", "/s": ""} {
		if got := Pick(shown, approval); got != want || Pick(nil, approval) != "" {
			t.Errorf("%q: %q", approval, got)
		}
	}
}

// guarding is a step that guards something.
type guarding struct {
	step
	guards string
}

func (s guarding) Guards() string { return s.guards }

// TestApprove_guards: what keeps data from harm waits for no approval of another step, and runs while nobody can say what else is left.
func TestApprove_guards(t *testing.T) {
	fence, destroys := guarding{step{name: "fence"}, "n9"}, step{name: "wipe", destroys: true}
	asked := guarding{step{name: "release", destroys: true}, "n9"}
	for name, c := range map[string]struct {
		mode      v1alpha1.Approval
		steps     []Step
		silent    bool
		run, plan string
	}{
		"behind one that destroys":         {v1alpha1.ApprovalAutomatic, []Step{destroys, fence}, false, "fence", "wipe"},
		"where every plan is approved":     {v1alpha1.ApprovalManual, []Step{take("a"), fence}, false, "fence", "take a"},
		"alone":                            {v1alpha1.ApprovalManual, []Step{fence}, false, "fence", ""},
		"while nobody says what is left":   {v1alpha1.ApprovalAutomatic, []Step{take("a"), fence}, true, "fence", ""},
		"one that a person has to approve": {v1alpha1.ApprovalAutomatic, []Step{fence, asked}, false, "fence", "release"},
	} {
		r := ask(c.mode, c.steps, nil, "")
		r.Silent = c.silent
		v := Approve(r)
		var waits []string
		if v.Plan != nil {
			for _, s := range v.Plan.Steps {
				waits = append(waits, s.Action)
			}
		}
		if show(v.Run) != c.run || strings.Join(waits, ", ") != c.plan {
			t.Errorf("%s: runs %q, waits %q", name, show(v.Run), waits)
		}
	}
}
