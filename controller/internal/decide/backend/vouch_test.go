package backend

import (
	"slices"
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
			{needed: []Step{off, nobody}, left: "nobody else uses it", waits: true},
			// Nobody could take the approval away.
			{needed: []Step{off, nobody}, left: "nobody else uses it", waits: true},
		},
		"needed again behind a step that vouches for nothing": {
			{needed: []Step{wipe}, run: "wipe"},
			{needed: []Step{off, wipe}, waits: true},
		},
		"nobody knew for a while": {
			{needed: []Step{off, nobody}, run: "n2 is off, nobody else uses it", left: "n2 is off, nobody else uses it"},
			{needed: []Step{nobody}, silent: true, left: "nobody else uses it"},
			{needed: []Step{off, nobody}, left: "nobody else uses it", waits: true},
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
				r.Silent = l.silent
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

// TestApprove_vouchAnew: once the approval is gone, a person is asked for all of it, and may approve the same plan once more.
func TestApprove_vouchAnew(t *testing.T) {
	steps := []Step{vouch("a"), vouch("b")}
	shown := Approve(ask(v1alpha1.ApprovalAutomatic, steps, nil, "")).Plan
	once := Approve(ask(v1alpha1.ApprovalAutomatic, steps[1:], shown, shown.Digest)).Plan
	void := Approve(ask(v1alpha1.ApprovalAutomatic, steps, once, shown.Digest))
	anew := Approve(ask(v1alpha1.ApprovalAutomatic, steps, void.Plan, ""))
	if anew.Plan.Digest != shown.Digest || !anew.Waiting() || vouchedIn(anew.Plan, steps) != "a, b" {
		t.Fatalf("%+v", anew.Plan)
	}
	if v := Approve(ask(v1alpha1.ApprovalAutomatic, steps, anew.Plan, shown.Digest)); show(v.Run) != "a, b" || v.Dropped {
		t.Errorf("%+v", v)
	}
}

// An approval that was there before a plan is not about it.
func TestApprove_vouchOfAnApprovalThatIsOlder(t *testing.T) {
	steps := []Step{vouch("a")}
	digest := Approve(ask(v1alpha1.ApprovalAutomatic, steps, nil, "")).Plan.Digest
	v := Approve(ask(v1alpha1.ApprovalAutomatic, steps, nil, digest))
	if len(v.Run) > 0 || !v.Dropped || !v.Waiting() {
		t.Fatalf("%+v", v)
	}
	if v = Approve(ask(v1alpha1.ApprovalAutomatic, steps, v.Plan, digest)); len(v.Run) > 0 || !v.Dropped {
		t.Errorf("at the next look: %+v", v)
	}
}
