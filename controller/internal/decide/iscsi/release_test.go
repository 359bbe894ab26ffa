package iscsi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/writer"
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
		"it was asked to register, and did not answer": {func(s *scene) { s.member("n2").Spec.Reservation.Registering = "1" }, []string{"FenceNode"}, "n1"},
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
		"the target keeps none":          {fence, func(s *Step) { s.RecordOnly = true }, false},
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

// TestWhole_vouchOutlasts: a look that cannot say whether a step is needed leaves what a person vouched for as it is, and nobody takes the step meanwhile. One that can say that it is not needed ends it.
func TestWhole_vouchOutlasts(t *testing.T) {
	deaf := func(s *scene, node string) { s.o.Hosts[node] = Host{Agent: decide.AgentUp, At: now, Failed: "timeout"} }
	unread := func(s *scene) { s.o.Reading = Reading{} }
	offline := func(s *scene) { s.host("n1", func(h *Host) { h.Seen.Sessions[0].State = sharedlun.SessionDown }) }
	holds := func(s *scene) { s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2"}) }
	fence := func(s *scene) {
		holds(s)
		s.silence("n2", true)
		s.member("n2").Spec.Reservation.Registering = "1"
	}
	foreign := func(s *scene) {
		s.silence("n2", false)
		s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, 99)
	}
	earlier := func(s *scene) {
		holds(s)
		s.member("n2").Spec.Reservation.Previous = []string{"0000000000000063"}
		s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, 99)
	}
	reader := func(s *scene) {
		s.silence("n2", false)
		s.volume(sharedlun.Volume{Name: "v", UUID: "u", Readers: []sharedlun.Boot{{Node: "n9", ID: "boot-n9"}}})
	}
	for name, c := range map[string]struct {
		scene, look func(*scene)
		action      string
		stands      bool
	}{
		"a fence, and no node works":                     {fence, offline, v1alpha1.ActionFenceNode, true},
		"a fence, and the LUN is not read":               {fence, unread, v1alpha1.ActionFenceNode, true},
		"a fence, and its node answers":                  {fence, func(s *scene) { unread(s); deaf(s, "n2") }, v1alpha1.ActionFenceNode, false},
		"a fence, and it is done":                        {fence, func(s *scene) { unread(s); *s.member("n2").Spec.Reservation = fencedOff }, v1alpha1.ActionFenceNode, false},
		"a fence, and nothing waits any more":            {fence, func(s *scene) { s.o.Reading.Contents.Group.Volumes = nil }, v1alpha1.ActionFenceNode, false},
		"keys of nobody, and no node works":              {foreign, offline, v1alpha1.ActionPreemptKeys, true},
		"keys of nobody, and the LUN is not read":        {foreign, unread, v1alpha1.ActionPreemptKeys, true},
		"keys of nobody, and they are gone":              {foreign, func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10, 11} }, v1alpha1.ActionPreemptKeys, false},
		"keys of nobody, gone, and no node works":        {foreign, func(s *scene) { offline(s); s.o.Reading.Keys.Keys = []uint64{10, 11} }, v1alpha1.ActionPreemptKeys, false},
		"keys of a boot before, and the LUN is not read": {earlier, unread, v1alpha1.ActionPreemptKeys, true},
		"keys of a boot before, and the node is deaf":    {earlier, func(s *scene) { deaf(s, "n2") }, v1alpha1.ActionPreemptKeys, true},
		"keys of a boot before, and it was booted":       {earlier, func(s *scene) { unread(s); s.host("n2", func(h *Host) { h.BootID = "next" }) }, v1alpha1.ActionPreemptKeys, false},
		"keys of a boot before, and it is silent":        {earlier, func(s *scene) { unread(s); s.silence("n2", false) }, v1alpha1.ActionPreemptKeys, false},
		"a reader, and no node works":                    {reader, offline, v1alpha1.ActionForgetReaders, true},
		"a reader, and the LUN is not read":              {reader, unread, v1alpha1.ActionForgetReaders, true},
		"a reader, and it is none any more":              {reader, func(s *scene) { s.o.Reading.Contents.Group.Volumes = nil }, v1alpha1.ActionForgetReaders, false},
	} {
		t.Run(name, func(t *testing.T) {
			var plan *v1alpha1.Plan
			approval := ""
			var last *View
			look := func(change func(*scene)) backend.Verdict {
				s := made("n1", "n2")
				c.scene(s)
				change(s)
				s.last = last
				var steps []backend.Step
				steps, last = s.wholeOf()
				v := backend.Approve(backend.Request{Mode: v1alpha1.ApprovalAutomatic, UID: owner, Steps: steps, Recorded: plan, Approval: approval})
				plan = v.Plan
				return v
			}
			if look(func(*scene) {}); plan == nil {
				t.Fatal("no plan")
			}
			approval = plan.Digest
			if v := look(c.look); slices.Contains(actions(v.Run), c.action) {
				t.Errorf("taken: %v", actions(v.Run))
			}
			if v := look(func(*scene) {}); slices.Contains(actions(v.Run), c.action) != c.stands || v.Waiting() == c.stands {
				t.Errorf("then %v, waits %t, want that it stands: %t", actions(v.Run), v.Waiting(), c.stands)
			}
		})
	}
}

// fencedOff is the record of a member whose fence is done.
var fencedOff = v1alpha1.MemberReservation{Key: "000000000000000b", BootID: "boot-n2", Fenced: true}

// TestWhole_noWorkerOffersNothingNew: all nodes have keys that no Member has, as after a restore. What helps is that a node replaces its own, not that those of nodes that work are taken off.
func TestWhole_noWorkerOffersNothingNew(t *testing.T) {
	s := made("n1", "n2")
	s.o.Reading.Keys.Keys = []uint64{98, 99}
	if steps := s.whole().Steps; len(steps) > 0 {
		t.Errorf("%v", actions(steps))
	}
}

// TestDecide_strays: a node that answers ends what it has of volumes that the LUN says are not its own, whatever its Member says. What it cannot end by itself is left once it
// does no harm.
func TestDecide_strays(t *testing.T) {
	has := func(m sharedlun.Mapping) func(*scene) {
		return n1(func(h *Host) { m.VolumeUUID = "u"; h.Mappings = []sharedlun.Mapping{m} })
	}
	fenced := func(s *scene) { s.member("n1").Spec.Reservation.Fenced = true }
	for name, c := range map[string]struct {
		heldBy string
		change []func(*scene)
		want   bool
	}{
		"its own":                          {"n1", []func(*scene){has(sharedlun.Mapping{})}, false},
		"its own, and it is fenced":        {"n1", []func(*scene){has(sharedlun.Mapping{}), fenced}, false},
		"another one's":                    {"n2", []func(*scene){has(sharedlun.Mapping{})}, true},
		"another one's, and it is fenced":  {"n2", []func(*scene){has(sharedlun.Mapping{}), fenced}, true},
		"nobody's, and it is fenced":       {"", []func(*scene){has(sharedlun.Mapping{}), fenced}, true},
		"open":                             {"n2", []func(*scene){has(sharedlun.Mapping{InUse: true}), fenced}, true},
		"cut, and open":                    {"n2", []func(*scene){has(sharedlun.Mapping{InUse: true, Cut: true}), fenced}, false},
		"cut, and closed":                  {"n2", []func(*scene){has(sharedlun.Mapping{Cut: true}), fenced}, true},
		"half cut, and open":               {"n2", []func(*scene){has(sharedlun.Mapping{InUse: true, Cut: true, Suspended: true}), fenced}, true},
		"no key was granted for its boot":  {"n2", []func(*scene){has(sharedlun.Mapping{}), n1(func(h *Host) { h.BootID = "next" })}, true},
		"being removed":                    {"n2", []func(*scene){has(sharedlun.Mapping{}), func(s *scene) { s.remove("n1") }}, true},
		"not known what it has":            {"n2", []func(*scene){has(sharedlun.Mapping{}), n1(func(h *Host) { h.Mapped = false })}, false},
		"not known whose it is":            {"n2", []func(*scene){has(sharedlun.Mapping{}), func(s *scene) { s.o.Reading.Known = false }}, false},
		"silent":                           {"n2", []func(*scene){fenced, func(s *scene) { s.silence("n1", true) }}, false},
		"the LUN is another Iscsi's":       {"n2", []func(*scene){has(sharedlun.Mapping{}), func(s *scene) { s.o.Iscsi.Spec.IQN = "iqn.2026-01.lab.quarry:other" }}, false},
		"another one's, being zeroed":      {"n2", []func(*scene){has(sharedlun.Mapping{Part: sharedlun.PartNew, InUse: true}), fenced}, true},
		"another one's, being copied from": {"n2", []func(*scene){has(sharedlun.Mapping{Part: sharedlun.PartSource, InUse: true}), fenced}, true},
		"being zeroed, cut and open":       {"n2", []func(*scene){has(sharedlun.Mapping{Part: sharedlun.PartNew, InUse: true, Cut: true}), fenced}, false},
		"its own, being zeroed":            {"n1", []func(*scene){has(sharedlun.Mapping{Part: sharedlun.PartNew, InUse: true})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2")
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: c.heldBy, ReadyBytes: 1})
			for _, change := range c.change {
				change(s)
			}
			steps := s.decide("n1").Steps
			i := slices.IndexFunc(steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionUnmapVolumes })
			if (i >= 0) != c.want {
				t.Fatalf("steps %v", actions(steps))
			}
			if i < 0 {
				return
			}
			step := steps[i].(Step)
			if step.Node != "n1" || step.Via() != "" || step.Runs != "n1" || step.Destroys() || !step.Restores() || len(step.Volumes) != 1 || step.Volumes[0].UUID != "u" {
				t.Errorf("%+v", step)
			}
		})
	}
}

// TestDecide_unregisterVia: another node that may write preempts the key of one that leaves, where no path of that one has it any more.
func TestDecide_unregisterVia(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   string
	}{
		"another one works":    {nil, "n2"},
		"another one is away":  {func(s *scene) { s.silence("n2", false); s.o.Reading.Keys.Keys = []uint64{10} }, ""},
		"it is the writer":     {func(s *scene) { s.o.Record.Writer = "n1" }, "n2"},
		"another one has none": {func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2")
			s.o.Record = writer.Record{Epoch: 1, Writer: "n2"}
			s.delete()
			s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationGroupRemoved: groupUUID}
			s.o.Reading.Contents.Group = nil
			if c.change != nil {
				c.change(s)
			}
			steps := s.decide("n1").Steps
			if len(steps) == 0 || steps[0].Action() != v1alpha1.ActionUnregisterKey {
				t.Fatalf("%v", actions(steps))
			}
			if step := steps[0].(Step); step.Runs != c.want || step.BootID != "boot-n1" || step.Via() != "" {
				t.Errorf("through %q in boot %s: %+v", step.Runs, step.BootID, step)
			}
		})
	}
}

// TestWhole_lingers: a node that leaves cannot take a key of an earlier boot off that none of its paths has. After a while a person is asked.
func TestWhole_lingers(t *testing.T) {
	for name, c := range map[string]struct {
		since time.Duration
		keys  []uint64
		want  []string
	}{
		"it just began":             {bootFor - time.Second, []uint64{10, 11, 99}, []string{}},
		"for a while":               {bootFor, []uint64{10, 11, 99}, []string{"PreemptKeys"}},
		"for a while, and has none": {bootFor, []uint64{10, 11}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2")
			s.remove("n2")
			s.member("n2").DeletionTimestamp = new(metav1.NewTime(now.Add(-c.since)))
			s.member("n2").Spec.Reservation.Previous = []string{"0000000000000063"}
			s.o.Reading.Keys.Keys = c.keys
			steps := s.whole().Steps
			if d := cmp.Diff(c.want, actions(steps)); d != "" {
				t.Fatalf("(-want +got):\n%s", d)
			}
			if len(steps) > 0 {
				if step := steps[0].(Step); step.Victim != "n2" || step.Runs != "n1" || !step.Destroys() || !strings.Contains(step.Why, "so that it cannot leave: 0000000000000063") {
					t.Errorf("%+v", step)
				}
			}
		})
	}
}

// TestDecide_removed: a node that answers ends what it has of volumes that were removed. The group tells which those are, if it was read after the node was asked, and has all that
// PersistentVolumes name: otherwise somebody may have brought back an older one, and what the node has is the last that is left.
func TestDecide_removed(t *testing.T) {
	device := sharedlun.Mapping{VolumeUUID: "x", InUse: true}
	has := func(m sharedlun.Mapping) func(*scene) {
		return n1(func(h *Host) { h.At = now.Add(-time.Second); h.Mappings = []sharedlun.Mapping{m} })
	}
	claimed := func(name string) func(*scene) {
		return func(s *scene) {
			s.o.World.Volumes["san"] = []backend.Volume{{Name: "pv", Handle: groupUUID + "/" + name, Expected: true}}
		}
	}
	for name, c := range map[string]struct {
		change []func(*scene)
		want   []string
	}{
		"removed":                           {[]func(*scene){has(device)}, []string{"x"}},
		"removed, all others are there":     {[]func(*scene){has(device), claimed("v")}, []string{"x"}},
		"removed while it was zeroed":       {[]func(*scene){has(sharedlun.Mapping{VolumeUUID: "x", Part: sharedlun.PartNew, InUse: true})}, []string{"x"}},
		"it returns errors, and is open":    {[]func(*scene){has(sharedlun.Mapping{VolumeUUID: "x", Cut: true, InUse: true})}, nil},
		"another one is missing on the LUN": {[]func(*scene){has(device), claimed("w")}, nil},
		"the group was read before":         {[]func(*scene){has(device), n1(func(h *Host) { h.At = now })}, nil},
		"the group was not read":            {[]func(*scene){has(device), func(s *scene) { s.o.Reading.Known = false }}, nil},
		"the group is gone":                 {[]func(*scene){has(device), func(s *scene) { s.o.Reading.Contents.Group = nil }}, nil},
		"the LUN has another group":         {[]func(*scene){has(device), func(s *scene) { s.o.Reading.Contents.Group.UUID = "y" }}, nil},
		"it is not known what the node has": {[]func(*scene){has(device), n1(func(h *Host) { h.Mapped = false })}, nil},
		"the Iscsi is given up as it is": {[]func(*scene){has(device), func(s *scene) {
			s.delete()
			s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationRemove: owner}
		}}, nil},
		"the LUN is that of another target": {[]func(*scene){has(device), func(s *scene) { s.o.Iscsi.Spec.IQN = "iqn.2026-01.lab.quarry:other" }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2")
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2", ReadyBytes: 1})
			for _, change := range c.change {
				change(s)
			}
			steps := s.decide("n1").Steps
			i := slices.IndexFunc(steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionUnmapVolumes })
			if i < 0 {
				if open := s.decide("n1").Finding.Message; strings.HasPrefix(name, "it returns errors") && !strings.Contains(open, "the removed volume x") {
					t.Errorf("nobody says that it is open: %q", open)
				}
				if c.want != nil {
					t.Errorf("steps %v", actions(steps))
				}
				return
			}
			step, _ := steps[i].(Step)
			if !slices.Equal(step.Gone, c.want) || len(step.Volumes) > 0 || step.Sequence != 7 || step.Destroys() || !slices.Equal(step.API().Volumes, c.want) {
				t.Errorf("%+v", step)
			}
			other := step
			if other.Gone = []string{"z"}; other.Digest() == step.Digest() {
				t.Error("the digest does not tell of which volume it is")
			}
		})
	}
}

// TestDecide_lastOfBefore: the last node of an Iscsi that ends was booted, and its key of before stays: no path of the node has it any more. After a while the node gets a key for its boot, and takes
// that of before off with it by approval.
func TestDecide_lastOfBefore(t *testing.T) {
	begin := func() *scene {
		s := made("n1", "n2")
		s.o.World.Members = s.o.World.Members[:1]
		delete(s.o.Hosts, "n2")
		removedGroup(s)
		s.member("n1").DeletionTimestamp = new(metav1.NewTime(now.Add(-bootFor)))
		s.host("n1", func(h *Host) { h.BootID = "next" })
		s.o.Reading.Keys.Keys = []uint64{10}
		return s
	}
	granted := func(s *scene) {
		s.member("n1").Spec.Reservation = &v1alpha1.MemberReservation{Key: "000000000000000c", BootID: "next", Previous: []string{"000000000000000a"}}
	}
	leave := []string{"UnregisterKey", "Logout"}
	for name, c := range map[string]struct {
		change func(*scene)
		node   []string
		whole  []string
	}{
		"it was tried for a while":        {func(*scene) {}, []string{"GrantKey", "RegisterKey"}, []string{}},
		"it just began":                   {func(s *scene) { s.member("n1").DeletionTimestamp = new(metav1.NewTime(now)) }, leave, []string{}},
		"the key of before is gone":       {func(s *scene) { s.o.Reading.Keys.Keys = nil }, leave, []string{}},
		"it was not booted":               {func(s *scene) { s.host("n1", func(h *Host) { h.BootID = "boot-n1" }) }, leave, []string{}},
		"the LUN is not read":             {func(s *scene) { s.o.Reading.Known = false }, leave, []string{}},
		"it has a key that it lacks":      {granted, []string{"RegisterKey"}, []string{}},
		"it has a key, as that of before": {func(s *scene) { granted(s); s.o.Reading.Keys.Keys = []uint64{10, 12} }, leave, []string{"PreemptKeys"}},
		"it has its key alone":            {func(s *scene) { granted(s); s.o.Reading.Keys.Keys = []uint64{12} }, leave, []string{}},
		"a person gave the LUN up":        {func(s *scene) { s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationRemove: owner} }, []string{"GrantKey", "RegisterKey"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin()
			c.change(s)
			if got := actions(s.decide("n1").Steps); !slices.Equal(got, c.node) {
				t.Errorf("steps %v, want %v", got, c.node)
			}
			steps := s.whole().Steps
			if got := actions(steps); !slices.Equal(got, c.whole) {
				t.Fatalf("of the whole %v, want %v", got, c.whole)
			}
			if len(steps) == 0 || steps[0].Action() != v1alpha1.ActionPreemptKeys {
				return
			}
			if step := steps[0].(Step); step.Runs != "n1" || step.Victim != "n1" || !step.Destroys() || !slices.Equal(step.Keys, []string{"000000000000000a"}) {
				t.Errorf("%+v", step)
			}
		})
	}
}
