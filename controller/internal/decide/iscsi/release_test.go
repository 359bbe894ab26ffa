package iscsi

import (
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestWhole_abandoned: a volume that no attachment gives to a fenced node is taken from it once the fence counts, as the node would judge it that the LUN was read
// through: by the Members and the keys alone, and through a node that may write itself.
func TestWhole_abandoned(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   []string
		via    string
	}{
		"the LUN was read through n1": {func(*scene) {}, []string{"ReleaseVolumes"}, "n1"},
		"the LUN was read through n3": {func(s *scene) { s.o.Reading.Via = "n3" }, []string{"ReleaseVolumes"}, "n3"},
		"that one has lost its key":   {func(s *scene) { s.o.Reading.Via = "n3"; s.o.Reading.Keys.Keys = []uint64{10} }, []string{"ReleaseVolumes"}, "n1"},
		"that one is fenced, too": {func(s *scene) {
			s.o.Reading.Via, s.o.Reading.Keys.Keys = "n3", []uint64{10}
			s.member("n3").Spec.Reservation.Fenced = true
		}, []string{"ReleaseVolumes"}, "n1"},
		"another fenced node has its key": {func(s *scene) { s.member("n3").Spec.Reservation.Fenced = true }, []string{"FenceNode"}, "n1"},
		"nobody has a key":                {func(s *scene) { s.o.Reading.Keys.Keys = nil }, nil, ""},
		"nobody reserved the LUN":         {func(s *scene) { s.o.Reading.Keys.Type = 0 }, nil, ""},
		"the LUN was not read":            {func(s *scene) { s.o.Reading.Known = false }, nil, ""},
		// A turn knows the Members alone, and would refuse it.
		"a key just granted":                           {func(s *scene) { s.o.Reading.Keys.Keys, s.o.Granted = []uint64{10, 12, 99}, []uint64{99} }, nil, ""},
		"it was asked to register, and did not answer": {func(s *scene) { s.member("n2").Spec.Reservation.Registering = true }, []string{"FenceNode"}, "n1"},
		"fenced without a key on record":               {func(s *scene) { s.unknownBoot("n2") }, []string{"ReleaseVolumes"}, "n1"},
		"fenced so, and a key of nobody is there":      {func(s *scene) { s.unknownBoot("n2"); s.o.Reading.Keys.Keys = []uint64{10, 11, 12} }, []string{"PreemptKeys"}, "n1"},
		"fenced so, and a key just granted": {func(s *scene) {
			s.unknownBoot("n2")
			s.o.Reading.Keys.Keys, s.o.Granted = []uint64{10, 12, 99}, []uint64{99}
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2", "n3")
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2", ReadyBytes: 1})
			s.silence("n2", true)
			s.member("n2").Spec.Reservation.Fenced = true
			s.o.Reading.Keys.Keys = []uint64{10, 12}
			c.change(s)
			s.last = s.view()
			s.o.Now = now.Add(leavingFor)
			steps := s.whole().Steps
			if got := actions(steps); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
				t.Fatalf("%v, want %v", got, c.want)
			}
			if len(steps) > 0 && steps[0].Via() != c.via {
				t.Errorf("via %s, want %s", steps[0].Via(), c.via)
			}
		})
	}
}

// TestStep_digest: an approval covers what a person read, and no other word; which node takes the step does not matter.
func TestStep_digest(t *testing.T) {
	fence := Step{Runs: "n1", Does: v1alpha1.ActionFenceNode, Victim: "n2", Vouched: true, Why: "why", Consent: "n2 is off"}
	keys := Step{Runs: "n1", Does: v1alpha1.ActionPreemptKeys, Keys: []string{"01"}, Why: "why", Consent: "nobody uses it"}
	for name, c := range map[string]struct {
		of     Step
		change func(*Step)
		same   bool
	}{
		"another node takes it":          {fence, func(s *Step) { s.Runs = "n3" }, true},
		"another consent":                {fence, func(s *Step) { s.Consent = "n2 was booted" }, false},
		"no consent":                     {fence, func(s *Step) { s.Consent = "" }, false},
		"another reason":                 {fence, func(s *Step) { s.Why = "because" }, false},
		"another node is off":            {fence, func(s *Step) { s.Victim = "n3" }, false},
		"its key is on record by now":    {fence, func(s *Step) { s.Key = "0b" }, false},
		"the target keeps none":          {fence, func(s *Step) { s.Unfenced = true }, false},
		"another consent about keys":     {keys, func(s *Step) { s.Consent = "only the nodes use it" }, false},
		"another reason about keys":      {keys, func(s *Step) { s.Why = "because" }, false},
		"another key":                    {keys, func(s *Step) { s.Keys = []string{"01", "02"} }, false},
		"keys of a boot of another node": {keys, func(s *Step) { s.Victim = "n3" }, false},
		"of another boot":                {keys, func(s *Step) { s.BootID = "next" }, false},
		"nobody vouches for a login":     {Step{Does: v1alpha1.ActionLogin, Node: "n1", Why: "why"}, func(s *Step) { s.Why = "because" }, true},
		"what is lost is its digest":     {Step{Does: v1alpha1.ActionCreateSharedGroup, Wipe: "v1:x", Consent: "ext4"}, func(s *Step) { s.Wipe = "v1:y" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := c.of
			c.change(&changed)
			if same := changed.Digest() == c.of.Digest(); same != c.same {
				t.Errorf("the digest is the same: %t", same)
			}
		})
	}
}

// TestWhole_vouchOnce: a person vouches for a node of which no key is on record. It is booted, and forgotten once more: the word of before does not count, even while the
// approval is alive by another step.
func TestWhole_vouchOnce(t *testing.T) {
	s := made("n1", "n2")
	s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2", ReadyBytes: 1})
	s.member("n2").Spec.Reservation = nil
	s.silence("n2", true)
	ask := func(plan *v1alpha1.Plan, approval string) backend.Verdict {
		return backend.Approve(backend.Request{Mode: v1alpha1.ApprovalAutomatic, UID: owner, Steps: s.whole().Steps, Recorded: plan, Approval: approval})
	}
	plan := ask(nil, "").Plan
	digest := plan.Digest
	if v := ask(plan, digest); !slices.Equal(actions(v.Run), []string{"FenceNode", "PreemptKeys"}) {
		t.Fatalf("%v", actions(v.Run))
	}
	// It is fenced, and somebody's key stays.
	s.unknownBoot("n2")
	v := ask(plan, digest)
	if !slices.Equal(actions(v.Run), []string{"PreemptKeys"}) || v.Waiting() {
		t.Fatalf("%v, waits %t", actions(v.Run), v.Waiting())
	}
	s.member("n2").Spec.Reservation = nil
	if v = ask(v.Plan, digest); len(v.Run) > 0 || !v.Waiting() || !v.Dropped {
		t.Errorf("runs %v, waits %t, dropped %t", actions(v.Run), v.Waiting(), v.Dropped)
	}
}
