package lvm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// lv is the name of the logical volume of a volume that the API server expects.
const lv = "pvc-00000000-0000-0000-0000-000000000001"

// expected returns a volume on n1 that has to be there, in a group that was recorded for it unless the UUID is empty.
func expected(name, uuid, handle string) backend.Volume {
	return backend.Volume{Name: name, Claim: "ns/" + name, GroupUUID: uuid, Handle: handle, Expected: true}
}

// TestDecide_vanishedVolumes: the group is there, and a volume that has to be in it is not.
func TestDecide_vanishedVolumes(t *testing.T) {
	const handle = "n1/quarry-a/" + lv
	const gone = "VolumeLost: no logical volume exists of v1 (claim ns/v1); nothing is changed here until they are back, or nothing needs them any more\n"
	const grows = "EnsureVolumeGroup quarry-a sdz\n"
	one := groupOf("A", "sda")
	full, renamed, partial := filled(one, lv), filled(one, lv), one
	renamed.Name, partial.Partial = "mine", true
	copied := filled(groupOf("C", "sdc"), lv)
	recorded := memberOf(clusterOf(), records("A"))
	volumes := func(v ...backend.Volume) []backend.Volume { return v }
	v1 := expected("v1", "A", handle)
	uncertain := v1
	uncertain.Expected = false
	own := func(g ...decide.Group) decide.Node { return up("n1", g, device("sdz")) }
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		"it is there": {scene{node: own(full), object: recorded, volumes: volumes(v1)}, grows},
		"it is there, thin or not, beside others":   {scene{node: own(filled(one, "lv", lv, "thinpool")), object: recorded, volumes: volumes(v1)}, grows},
		"it is there, of a version before records":  {scene{node: own(full), object: recorded, volumes: volumes(expected("v1", "", handle))}, grows},
		"it is there, and the group was renamed":    {scene{node: own(renamed), object: recorded, volumes: volumes(v1)}, "VolumeUnusable: no pod that starts gets v1 (claim ns/v1): its handle says volume group quarry-a, and its logical volume is mine/" + lv + "\nEnsureVolumeGroup mine sdz\n"},
		"it is not there":                           {scene{node: own(one), object: recorded, volumes: volumes(v1)}, gone},
		"only a snapshot of it is there":            {scene{node: own(filled(one, "snap-"+lv[4:])), object: recorded, volumes: volumes(v1)}, gone},
		"its handle names another node":             {scene{node: own(full), object: recorded, volumes: volumes(expected("v1", "A", "n2/quarry-a/"+lv))}, gone},
		"its handle is none of the driver":          {scene{node: own(filled(one, "v1")), object: recorded, volumes: volumes(expected("v1", "A", "v1"))}, gone},
		"a frozen member tells it":                  {scene{node: own(one), object: recorded, volumes: volumes(v1), edit: frozen}, gone},
		"it may be gone":                            {scene{node: own(one), object: recorded, volumes: volumes(uncertain)}, grows},
		"the host is silent":                        {scene{node: away(one), object: recorded, volumes: volumes(v1)}, ""},
		"too early to say":                          {scene{node: decide.Node{Agent: decide.AgentConnecting}, object: recorded, volumes: volumes(v1)}, ""},
		"LVM cannot be asked":                       {scene{node: decide.Node{Agent: decide.AgentUp, LVMError: "no lvm"}, object: recorded, volumes: volumes(v1)}, "StepFailed: LVM cannot be run: no lvm\n"},
		"a disk is missing, which may hold it":      {scene{node: own(partial), object: recorded, volumes: volumes(v1)}, "VolumeGroupPartial: a disk of volume group quarry-a is missing; no volume is known to have a part on it; the other volumes work and can be deleted; LVM makes none, and none larger, until the disk is back or the group has forgotten it\n"},
		"the group is lost, which says more":        {scene{node: own(), object: recorded, volumes: volumes(v1)}, "VolumeGroupLost: volume group quarry-a (UUID A) is not seen on this host" + untilBack + "; its volumes are v1 (claim ns/v1)\n"},
		"the member is being removed":               {scene{node: own(one), object: recorded, volumes: volumes(v1), edit: failing}, ""},
		"it is in another group than recorded only": {scene{node: own(one, copied), object: recorded, volumes: volumes(v1)}, "VolumeGroupConflict: volume groups quarry-a (UUID A) and quarry-a (UUID C) carry the tag of this Cluster, a host has one group; what is in it stays served, nothing is changed here and no volume is made\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.in.decide()
			if d := cmp.Diff(c.want, tell(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if got.Finding.Reason == v1alpha1.ReasonVolumeLost && (got.Finding.Kind != backend.Bad || !got.Serves) {
				t.Errorf("%+v, serves %t", got.Finding, got.Serves)
			}
		})
	}
	var many []backend.Volume
	for i := range 15 {
		many = append(many, expected(fmt.Sprintf("v%02d", i), "A", fmt.Sprintf("n1/quarry-a/pvc-00000000-0000-0000-0000-0000000000%02d", i)))
	}
	got := scene{node: own(one), object: recorded, volumes: many}.decide().Finding.Message
	if !strings.Contains(got, "v09 (claim ns/v09) and 5 more;") || strings.Contains(got, "v10") {
		t.Error(got)
	}
}

// TestDecide_missingDiskNamesWhatWasOnIt: the member tells which disk is missing, and which claims have a part on it.
func TestDecide_missingDiskNamesWhatWasOnIt(t *testing.T) {
	g := filled(groupOf("A", "sda"), lv, "other", "beside")
	g.Partial, g.PartialVolumes = true, []string{"other", lv}
	g.PVs = append(g.PVs, decide.PV{UUID: "gone", SizeBytes: 1 << 30, FreeBytes: 1 << 20})
	in := scene{
		node: up("n1", []decide.Group{g}), object: memberOf(clusterOf(), records("A")),
		volumes: []backend.Volume{expected("v1", "A", "n1/quarry-a/"+lv)},
	}
	got := in.decide().Finding
	const want = "a disk of volume group quarry-a is missing (missing:gone); volumes that lack a part: other, v1 (claim ns/v1); the other volumes work"
	if got.Kind != backend.Bad || got.Reason != v1alpha1.ReasonPartial || !strings.HasPrefix(got.Message, want) {
		t.Errorf("%+v", got)
	}
}

// TestDecide_stale: a member is not ready while a volume leads to a disk that dropped off, even if the disk is back.
func TestDecide_stale(t *testing.T) {
	g := filled(groupOf("A", "sda"), lv, "beside")
	g.StaleVolumes = []string{lv}
	in := scene{
		node: up("n1", []decide.Group{g}), object: memberOf(clusterOf(), records("A")),
		volumes: []backend.Volume{expected("v1", "A", "n1/quarry-a/"+lv)},
	}
	got := in.decide().Finding
	if got.Kind != backend.Bad || got.Reason != v1alpha1.ReasonVolumeStale || !strings.Contains(got.Message, ": v1 (claim ns/v1); each works again") {
		t.Errorf("%+v", got)
	}
}

// TestDecide_unusable: a member is not ready while a volume that has to be there carries another id than its handle, or has begun to be removed. It goes on to serve others.
func TestDecide_unusable(t *testing.T) {
	const handle = "n1/quarry-a/" + lv
	for name, c := range map[string]struct {
		edit func(*decide.Group, *backend.Volume)
		says string
	}{
		"no id":                    {func(g *decide.Group, _ *backend.Volume) { g.OtherIDs = map[string]string{lv: ""} }, "no pod that starts gets v1 (claim ns/v1): its logical volume quarry-a/" + lv + " has not its handle as the one id (it has \"\")"},
		"the id of another volume": {func(g *decide.Group, _ *backend.Volume) { g.OtherIDs = map[string]string{lv: "n1/quarry-a/x"} }, "(it has \"n1/quarry-a/x\")"},
		"the id of another node":   {func(g *decide.Group, _ *backend.Volume) { g.OtherIDs = map[string]string{lv: "n2/quarry-a/" + lv} }, "(it has \"n2/quarry-a/"},
		"being removed":            {func(g *decide.Group, _ *backend.Volume) { g.RemovingVolumes = []string{lv} }, "no pod that starts gets v1 (claim ns/v1): the removal of its logical volume"},
		"both": {func(g *decide.Group, _ *backend.Volume) {
			g.RemovingVolumes, g.OtherIDs = []string{lv}, map[string]string{lv: ""}
		}, "the removal of its logical volume"},
		"the group was renamed":           {func(g *decide.Group, _ *backend.Volume) { g.Name, g.OtherIDs = "mine", map[string]string{lv: handle} }, "its handle says volume group quarry-a, and its logical volume is mine/"},
		"the handle names no group":       {func(_ *decide.Group, v *backend.Volume) { v.Handle, v.GroupUUID = "n1/other/"+lv, "" }, "its handle says volume group other"},
		"its handle has the id of before": {func(g *decide.Group, _ *backend.Volume) { g.OtherIDs = map[string]string{lv: handle} }, ""},
		"another one of the group": {func(g *decide.Group, _ *backend.Volume) {
			g.OtherIDs, g.RemovingVolumes = map[string]string{"beside": ""}, []string{"beside"}
		}, ""},
		"nobody needs it": {func(g *decide.Group, v *backend.Volume) { g.OtherIDs, v.Expected = map[string]string{lv: ""}, false }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, v1 := filled(groupOf("A", "sda"), lv, "beside"), expected("v1", "A", handle)
			c.edit(&g, &v1)
			got := scene{node: up("n1", []decide.Group{g}), object: memberOf(clusterOf(), records("A")), volumes: []backend.Volume{v1}}.decide()
			if is := got.Finding.Reason == v1alpha1.ReasonVolumeUnusable; is != (c.says != "") || !strings.Contains(got.Finding.Message, c.says) ||
				is && got.Finding.Kind != backend.Bad || !got.Serves {
				t.Errorf("%+v, serves %t", got.Finding, got.Serves)
			}
			if strings.Count(got.Finding.Message, "v1 (") > 1 {
				t.Errorf("twice: %s", got.Finding.Message)
			}
		})
	}
}

// TestDecide_unusableBesideAnother: an object that nobody needs hides nothing of another one of the same logical volume.
func TestDecide_unusableBesideAnother(t *testing.T) {
	g := filled(groupOf("A", "sda"), lv)
	g.OtherIDs = map[string]string{lv: ""}
	v1, spare := expected("v1", "A", "n1/quarry-a/"+lv), expected("z-restored", "A", "n1/quarry-a/"+lv)
	spare.Expected = false
	got := scene{node: up("n1", []decide.Group{g}), object: memberOf(clusterOf(), records("A")), volumes: []backend.Volume{v1, spare}}.decide()
	if got.Finding.Reason != v1alpha1.ReasonVolumeUnusable || strings.Contains(got.Finding.Message, "restored") {
		t.Errorf("%+v", got.Finding)
	}
}

// TestDecide_forgetMissingDevice: the step that gives a disk up names it, and what is lost; both are part of what is approved.
func TestDecide_forgetMissingDevice(t *testing.T) {
	decideFor := func(edit func(*decide.Group)) []backend.Step {
		g := filled(groupOf("A", "sda"), lv)
		g.Partial, g.PartialVolumes = true, []string{lv}
		g.PVs = append(g.PVs, decide.PV{UUID: "gone", SizeBytes: 1 << 30})
		edit(&g)
		return scene{
			node: up("n1", []decide.Group{g}, device("sdz")), object: memberOf(clusterOf(), records("A")),
			volumes: []backend.Volume{expected("v1", "A", "n1/quarry-a/"+lv)},
		}.decide().Steps
	}
	steps := decideFor(func(*decide.Group) {})
	if len(steps) != 1 {
		t.Fatalf("%v", steps)
	}
	s := steps[0]
	api := s.API()
	if s.Action() != v1alpha1.ActionForgetMissingDevice || !s.Destroys() ||
		!strings.HasPrefix(strings.Join(api.Devices, ";"), "missing:gone (") || strings.Join(api.Volumes, ";") != "v1 (claim ns/v1)" {
		t.Errorf("%+v", api)
	}
	digests := map[string]bool{s.Digest(): true}
	for name, edit := range map[string]func(*decide.Group){
		"another device": func(g *decide.Group) { g.PVs[len(g.PVs)-1].UUID = "other" },
		"nothing lost":   func(g *decide.Group) { g.PartialVolumes = nil },
	} {
		other := decideFor(edit)
		if len(other) != 1 || !other[0].Destroys() || digests[other[0].Digest()] {
			t.Errorf("%s: %v", name, other)
		}
	}
	if steps := decideFor(func(g *decide.Group) { g.PVs[len(g.PVs)-1].Path = "/dev/disk/by-id/sdz" }); len(steps) > 0 {
		t.Errorf("a disk that is back is to be forgotten: %v", steps)
	}
}

// TestDecide_damagedPool: the member is not ready, and tells which claims a damaged thin pool concerns.
func TestDecide_damagedPool(t *testing.T) {
	g := filled(groupOf("A", "sda"), lv, "beside")
	g.Pools = []decide.ThinPool{{Name: "quarry-thin", UsageUnknown: true, Damage: "its first block is zero", DamagedVolumes: []string{lv}}}
	in := scene{
		node: up("n1", []decide.Group{g}), object: memberOf(clusterOf(), records("A")),
		volumes: []backend.Volume{expected("v1", "A", "n1/quarry-a/"+lv)},
	}
	got := in.decide()
	const want = "thin pool quarry-a/quarry-thin is damaged: its first block is zero; volumes in it, which cannot be used: v1 (claim ns/v1). " +
		"Nothing is put into it. docs/thin-pools.md says how it is repaired"
	if got.Finding.Kind != backend.Bad || got.Finding.Reason != v1alpha1.ReasonThinPoolDamaged || got.Finding.Message != want || len(got.Steps) > 0 {
		t.Errorf("%+v, steps %v", got.Finding, got.Steps)
	}
}

// TestDecide_repairThinPool: a damaged pool is repaired by approval, and nothing else of it is done. The step names its volumes. While the agent does not
// know yet whether the pool is damaged, only what the status shows stays planned.
func TestDecide_repairThinPool(t *testing.T) {
	damaged := decide.ThinPool{
		Name: "quarry-thin", SizeBytes: 1 << 30, UsageUnknown: true, Damage: "its first block is zero", DamagedVolumes: []string{lv}, RepairDigest: "v1:a",
	}
	decideFor := func(p decide.ThinPool, edits ...func(*scene)) backend.Host {
		g := filled(groupOf("A", "sda"), lv)
		g.Pools = []decide.ThinPool{p}
		c, percent := clusterOf(), int32(90)
		c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{Percent: &percent}}
		in := scene{node: up("n1", []decide.Group{g}), object: memberOf(c, records("A")), volumes: []backend.Volume{expected("v1", "A", "n1/quarry-a/"+lv)}}
		for _, edit := range edits {
			edit(&in)
		}
		return in.decide()
	}
	h := decideFor(damaged)
	if len(h.Steps) != 1 || !h.Steps[0].Destroys() || !strings.Contains(h.Finding.Message, "approve the plan with RepairThinPool; docs/thin-pools.md says how it is repaired by hand") {
		t.Fatalf("steps %v, %s", h.Steps, h.Finding.Message)
	}
	api := h.Steps[0].API()
	if api.Action != v1alpha1.ActionRepairThinPool || !strings.HasPrefix(api.ThinPool, "quarry-thin (") || strings.Join(api.Volumes, ";") != "v1 (claim ns/v1)" ||
		!strings.Contains(api.Reason, "the old metadata is kept") {
		t.Errorf("%+v", api)
	}
	planned := func(in *scene) { in.object.Status.Plan = &v1alpha1.Plan{Steps: []v1alpha1.PlanStep{api}} }
	unknown, other, well, old := damaged, damaged, damaged, damaged
	unknown.Damage, unknown.DamagedVolumes = "", nil
	other.RepairDigest = "v1:b"
	well.Damage, well.UsageUnknown, well.RepairDigest = "", false, ""
	old.RepairDigest = ""
	for name, c := range map[string]struct {
		pool  decide.ThinPool
		edits []func(*scene)
		want  bool
	}{
		"an agent that does not repair":     {old, nil, false},
		"it is not known yet":               {unknown, nil, false},
		"it is not known yet, and approved": {unknown, []func(*scene){planned}, true},
		"it is well":                        {well, []func(*scene){planned}, false},
		"maintenance":                       {damaged, []func(*scene){func(in *scene) { in.edit = frozen }}, false},
		"another damage":                    {other, []func(*scene){planned}, true},
	} {
		steps := decideFor(c.pool, c.edits...).Steps
		repairs := slices.ContainsFunc(steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionRepairThinPool })
		if repairs != c.want || repairs && (steps[0].Digest() == api.Digest) != (c.pool.RepairDigest == damaged.RepairDigest) {
			t.Errorf("%s: %v", name, steps)
		}
	}
}

// TestFailureReason_repair: whatever a repair fails for, the pool stays damaged.
func TestFailureReason_repair(t *testing.T) {
	for kind, want := range map[decide.FaultKind]string{
		decide.FaultPrecondition: v1alpha1.ReasonThinPoolDamaged, decide.FaultNoRoom: v1alpha1.ReasonThinPoolDamaged,
		decide.FaultUnavailable: v1alpha1.ReasonAgentUnreachable,
	} {
		if got := FailureReason(v1alpha1.ActionRepairThinPool, kind); got != want {
			t.Errorf("%v: %s", kind, got)
		}
	}
}
