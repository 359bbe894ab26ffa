package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// vouch is a step by whose approval a person vouches for something.
func vouch(name string) step { return step{name: name, via: "n1", destroys: true, vouches: true} }

// look is what one look finds, of which a step is needed and which may run.
type look struct {
	needed []Step
	silent bool
	// run is what runs, left what the recorded plan vouches for after it.
	run, left string
	// waits is true when a person is asked again, and the approval dropped.
	waits bool
}

// TestApprove_vouch: an approval covers what a person vouched for until it is taken, or not needed for the first time, whatever keeps the approval alive.
func TestApprove_vouch(t *testing.T) {
	off, nobody, wipe := vouch("n2 is off"), vouch("nobody else uses it"), step{name: "wipe", via: "n1", destroys: true}
	for name, looks := range map[string][]look{
		"both are taken": {
			{needed: []Step{off, nobody}, run: "n2 is off, nobody else uses it", left: "n2 is off, nobody else uses it"},
			{needed: []Step{nobody}, run: "nobody else uses it", left: "nobody else uses it"},
			{},
		},
		"needed again": {
			{needed: []Step{nobody}, run: "nobody else uses it", left: "nobody else uses it"},
			{needed: []Step{off, nobody}, left: "n2 is off, nobody else uses it", waits: true},
			// Nobody could take the approval away.
			{needed: []Step{off, nobody}, left: "n2 is off, nobody else uses it", waits: true},
		},
		"needed again behind a step that vouches for nothing": {
			{needed: []Step{wipe}, run: "wipe"},
			{needed: []Step{off, wipe}, left: "n2 is off", waits: true},
		},
		"nobody knew for a while": {
			{needed: []Step{off, nobody}, run: "n2 is off, nobody else uses it", left: "n2 is off, nobody else uses it"},
			{needed: []Step{nobody}, silent: true, left: "nobody else uses it"},
			{needed: []Step{off, nobody}, left: "n2 is off, nobody else uses it", waits: true},
		},
		"what vouches for nothing comes back": {
			{needed: []Step{off}, run: "n2 is off", left: "n2 is off"},
			{needed: []Step{off, wipe}, run: "n2 is off, wipe", left: "n2 is off"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := []Step{off, nobody}
			if slices.ContainsFunc(looks, func(l look) bool { return slices.Contains(l.needed, Step(wipe)) }) {
				all = []Step{off, wipe}
			}
			recorded := Approve(ask(v1alpha1.ApprovalAutomatic, all, nil, "")).Plan
			digest := recorded.Digest
			for i, l := range looks {
				r := ask(v1alpha1.ApprovalAutomatic, l.needed, recorded, digest)
				r.Silent, r.Offer = l.silent, fmt.Sprintf("here-%d", i+2)
				v := Approve(r)
				if show(v.Run) != l.run || v.Waiting() && !l.silent != l.waits || v.Dropped != l.waits {
					t.Fatalf("look %d: runs %q, waits %t, dropped %t", i+1, show(v.Run), v.Waiting(), v.Dropped)
				}
				if d := cmp.Diff(l.left, vouchedIn(v.Plan, all)); d != "" {
					t.Fatalf("look %d: vouched for, -want +got:\n%s", i+1, d)
				}
				// The plan of the whole is kept nowhere but in the plan of the storage.
				recorded = WholePlan("m-uid", Combine([]MemberPlan{{"", v.Plan}}), digest)
			}
		})
	}
}

// vouchedIn names the steps that a plan vouches for.
func vouchedIn(p *v1alpha1.Plan, steps []Step) string {
	if p == nil {
		return ""
	}
	return show(slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return !slices.Contains(p.Vouched, s.Digest()) }))
}

// offer returns a request in which a plan that is shown from now on has an offer of its own.
func offer(offer string, steps []Step, recorded *v1alpha1.Plan, approval string) Request {
	r := ask(v1alpha1.ApprovalAutomatic, steps, recorded, approval)
	r.Offer = offer
	return r
}

// TestApprove_vouchAnew: what is needed again is offered anew: a person is asked for all of it, and the approval of before is none of it, even if nobody could take it away.
func TestApprove_vouchAnew(t *testing.T) {
	steps := []Step{vouch("a"), vouch("b")}
	shown := Approve(offer("here-1", steps, nil, "")).Plan
	once := Approve(offer("here-2", steps[1:], shown, shown.Digest)).Plan
	anew := Approve(offer("here-3", steps, once, shown.Digest))
	if !anew.Dropped || anew.Plan.Digest == shown.Digest || !anew.Waiting() || vouchedIn(anew.Plan, steps) != "a, b" {
		t.Fatalf("%+v", anew.Plan)
	}
	if v := Approve(offer("here-4", steps, anew.Plan, shown.Digest)); len(v.Run) > 0 || v.Plan.Digest != anew.Plan.Digest {
		t.Fatalf("the plan changes while it waits, or the approval of before serves: %+v", v)
	}
	if v := Approve(offer("here-5", steps, anew.Plan, anew.Plan.Digest)); show(v.Run) != "a, b" || v.Dropped {
		t.Errorf("%+v", v)
	}
}

// TestApprove_vouchOfAnotherProcess: a backup brings back a plan with its approval. So does a controller that starts anew: nobody knows which of the two it was.
func TestApprove_vouchOfAnotherProcess(t *testing.T) {
	steps := []Step{vouch("a"), wipe("b")}
	shown := Approve(offer("here-1", steps, nil, "")).Plan
	v := Approve(offer("there-1", steps, shown, shown.Digest))
	if len(v.Run) > 0 || !v.Dropped || !v.Waiting() || v.Plan.Digest == shown.Digest {
		t.Fatalf("%+v", v)
	}
	if again := Approve(offer("there-2", steps, v.Plan, v.Plan.Digest)); show(again.Run) != "a, wipe b" {
		t.Errorf("%+v", again)
	}
	// What nobody vouches for goes on: it is about what is on the disks.
	if v := Approve(offer("there-1", steps[1:], shown, shown.Digest)); show(v.Run) != "wipe b" || v.Dropped {
		t.Errorf("%+v", v)
	}
}

// TestApprove_theSamePlanLater: an approval that fitted nothing, and that nobody took away, does not serve when the same plan is shown again, whatever it does.
func TestApprove_theSamePlanLater(t *testing.T) {
	for _, steps := range [][]Step{wipeAndTake(), {vouch("a")}} {
		first := Approve(offer("here-1", steps, nil, "")).Plan
		if gone := Approve(offer("here-2", nil, first, "")); gone.Plan != nil {
			t.Fatalf("%+v", gone)
		}
		v := Approve(offer("here-3", steps, nil, first.Digest))
		if !v.Waiting() || !v.Dropped || v.Plan.Digest == first.Digest {
			t.Errorf("%+v", v)
		}
		// Another plan was shown in between.
		other := Approve(offer("here-2", append([]Step{wipe("x")}, steps...), first, "")).Plan
		if v := Approve(offer("here-3", steps, other, first.Digest)); !v.Waiting() || v.Plan.Digest == first.Digest {
			t.Errorf("%+v", v)
		}
		// As long as it is shown it is the same.
		if v := Approve(offer("there-1", wipeAndTake(), Approve(offer("here-1", wipeAndTake(), nil, "")).Plan, "")); v.Plan.Offer != "here-1" {
			t.Errorf("%+v", v.Plan)
		}
	}
}

// TestApprove_longPlan: of a plan whose steps are not all recorded the offer stays while the first ones do: otherwise nobody could ever approve it.
func TestApprove_longPlan(t *testing.T) {
	var steps []Step
	for i := range maxWhole + 1 {
		steps = append(steps, vouch(fmt.Sprint(i)))
	}
	first := Approve(offer("here-1", steps, nil, "")).Plan
	shown := WholePlan("m-uid", Combine([]MemberPlan{{"", first}}), "")
	if v := Approve(offer("here-2", steps, shown, "")); v.Plan.Digest != first.Digest {
		t.Errorf("offer %s, then %s", first.Offer, v.Plan.Offer)
	}
}

// TestHolds: before each step it is asked whether its approval holds still.
func TestHolds(t *testing.T) {
	off, b := vouch("n2 is off"), wipe("b")
	plan := approved(t, []Step{off, b, take("b")})
	used := plan.DeepCopy()
	used.Vouched = nil
	for name, c := range map[string]struct {
		step     Step
		mode     v1alpha1.Approval
		recorded *v1alpha1.Plan
		approval string
		want     string
	}{
		"approved still":                           {off, v1alpha1.ApprovalAutomatic, plan, plan.Digest, ""},
		"a person took the approval away":          {off, v1alpha1.ApprovalAutomatic, plan, "", "taken away"},
		"a person approved another plan":           {b, v1alpha1.ApprovalAutomatic, plan, "0123", "taken away"},
		"it was not needed for a while":            {off, v1alpha1.ApprovalAutomatic, used, plan.Digest, "not needed for a while"},
		"no plan is shown any more":                {off, v1alpha1.ApprovalAutomatic, nil, plan.Digest, "not needed for a while"},
		"a wipe, and no plan is shown any more":    {b, v1alpha1.ApprovalAutomatic, nil, plan.Digest, ""},
		"a step that needs none, and none is left": {take("b"), v1alpha1.ApprovalAutomatic, nil, "", ""},
		"the same where all need one":              {take("b"), v1alpha1.ApprovalManual, nil, "", "taken away"},
		"a step that was no part of the plan":      {wipe("c"), v1alpha1.ApprovalAutomatic, nil, "", ""},
	} {
		err := Holds(c.step, c.mode, plan, c.recorded, c.approval)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
	}
	if err := Holds(b, v1alpha1.ApprovalAutomatic, nil, nil, ""); err != nil {
		t.Errorf("a step that ran by itself: %v", err)
	}
}
