package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
)

func TestObserve_groups(t *testing.T) {
	f := newFake("sda", "sdb", "sdc", "sdd")
	f.label("sda", "ua")
	f.label("sdb", "ub")
	f.label("sdc", "uc")
	f.vgs = []lvm.VG{
		{Name: "ours", UUID: "O", SizeBytes: 10, FreeBytes: 5, ExtentBytes: 1, Tags: []string{"x", quarry.TagCluster + "uid"}, Volumes: []lvm.LV{{Name: "v"}}, Partial: true},
		{Name: "theirs", UUID: "T"},
		{Name: "contested", UUID: "C", Tags: []string{quarry.TagCluster + "a", quarry.TagCluster + "b"}},
		{Name: "nameless", UUID: "N", Tags: []string{quarry.TagCluster}},
	}
	f.pvs = []lvm.PV{
		{UUID: "ua", Path: "/dev/sda", Major: 8, SizeBytes: 6, FreeBytes: 5, VGName: "ours", VGUUID: "O"},
		{UUID: "gone", VGName: "ours", VGUUID: "O", Missing: true, SizeBytes: 4},
		{UUID: "ub", Path: "/dev/x", Major: 8, Minor: 16, VGName: "theirs", VGUUID: "T"},
		{UUID: "uc", Path: "/dev/sdc", Major: 8, Minor: 32},
	}
	snap, err := f.inventory(t).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantGroups := []plan.Group{{
		Name: "ours", UUID: "O", OwnerUID: "uid", SizeBytes: 10, FreeBytes: 5, ExtentBytes: 1, Volumes: []string{"v"}, Partial: true,
		LogicalVolumes: []plan.Volume{{Name: "v"}},
		PVs:            []plan.PV{{UUID: "gone", SizeBytes: 4}, {Path: "/dev/disk/by-id/sda", UUID: "ua", SizeBytes: 6, FreeBytes: 5}},
	}}
	if diff := cmp.Diff(wantGroups, snap.Groups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"contested", "nameless", "theirs"}, snap.ForeignGroups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	type membership struct{ PVUUID, Group, OwnerUID string }
	want := map[string]membership{"sda": {"ua", "ours", "uid"}, "sdb": {"ub", "theirs", ""}, "sdc": {PVUUID: "uc"}, "sdd": {}}
	got := map[string]membership{}
	for name, d := range byName(snap) {
		got[name] = membership{d.PVUUID, d.Group, d.OwnerUID}
		if len(d.Unreadable) > 0 {
			t.Errorf("%s: %q", name, d.Unreadable)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{"/dev/sda", "/dev/sdb", "/dev/sdc"}}, f.reports); diff != "" {
		t.Errorf("LVM was asked (-want +got):\n%s", diff)
	}
}

func TestObserve_clonesAreNotGivenToLVM(t *testing.T) {
	f := newFake("sda", "sdb", "sdc")
	f.label("sda", "u")
	f.label("sdb", "u")
	f.label("sdc", "v")
	f.pvs = []lvm.PV{{UUID: "v", Major: 8, Minor: 32}}
	got := f.observe(t)
	want := []string{"volume group: sda, sdb carry the same physical volume"}
	if !cmp.Equal(got["sda"].Unreadable, want) || !cmp.Equal(got["sdb"].Unreadable, want) || len(got["sdc"].Unreadable) > 0 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([][]string{{"/dev/sdc"}}, f.reports); diff != "" {
		t.Errorf("LVM was asked (-want +got):\n%s", diff)
	}
}

func TestObserve_legsOfMultipathAndRAIDAreNotAsked(t *testing.T) {
	f := newFake("sda", "sdb", "sdc")
	for _, name := range []string{"sda", "sdb"} {
		f.label(name, "u")
	}
	f.label("sdc", "v")
	f.devices[0].Holders, f.devices[1].Holders, f.devices[2].Holders = []string{"dm-0"}, []string{"dm-0"}, []string{"md0"}
	f.devices = append(f.devices,
		block.Device{Name: "dm-0", Type: "dm", DMUUID: "mpath-1", SizeBytes: size},
		block.Device{Name: "md0", Type: "md", SizeBytes: size})
	got := f.observe(t)
	if len(f.reports) > 0 || len(got["sda"].Unreadable) > 0 || got["sda"].PVUUID != "u" {
		t.Errorf("%v %+v", f.reports, got)
	}
}

func TestObserve_wipeMark(t *testing.T) {
	f := newFake("sda")
	facts := f.facts["/dev/sda"]
	facts.Wipe = &disk.Mark{Digest: "abc"}
	f.facts["/dev/sda"] = facts
	if got := f.observe(t)["sda"]; got.Wipe == nil || got.Wipe.Digest != "abc" {
		t.Errorf("%+v", got)
	}
}

// TestObserve_whoseNodeAGroupIs: the system ID says it, of groups without our tag too, and of one group that is looked at alone.
func TestObserve_whoseNodeAGroupIs(t *testing.T) {
	f := newFake("sda", "sdb", "sdc", "sdd")
	for i, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		f.label(name, name)
		f.pvs = append(f.pvs, lvm.PV{UUID: name, Path: "/dev/" + name, Major: 8, Minor: uint32(16 * i), VGName: "vg-" + name, VGUUID: "u-" + name})
	}
	tags := []string{quarry.TagCluster + "uid"}
	f.vgs = []lvm.VG{
		{Name: "vg-sda", UUID: "u-sda", Tags: tags},
		{Name: "vg-sdb", UUID: "u-sdb", Tags: tags, SystemID: "quarry-n1"},
		{Name: "vg-sdc", UUID: "u-sdc", Tags: tags, SystemID: "quarry-n2"},
		{Name: "vg-sdd", UUID: "u-sdd", SystemID: "san-host"},
	}
	i := f.inventory(t)
	i.cfg.SystemID = "quarry-n1"
	snap, err := i.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]plan.Access{"vg-sda": plan.AccessNone, "vg-sdb": plan.AccessOwn, "vg-sdc": plan.AccessOther}
	for _, g := range snap.Groups {
		if g.Access != want[g.Name] || g.Usable() == (g.Name == "vg-sdc") {
			t.Errorf("group %s: access %d", g.Name, g.Access)
		}
		delete(want, g.Name)
	}
	if len(want) > 0 {
		t.Errorf("not seen: %v", want)
	}
	for name, other := range map[string]string{"sda": "", "sdb": "", "sdc": "quarry-n2", "sdd": "san-host"} {
		if got := byName(snap)[name].OtherNode; got != other {
			t.Errorf("%s: other node %q, want %q", name, got, other)
		}
	}
	f.vgs, f.pvs = f.vgs[2:3], f.pvs[2:3]
	now, err := i.ObserveGroup(t.Context(), snap.Groups[2])
	if err != nil || now.Access != plan.AccessOther || now.SystemID != "quarry-n2" {
		t.Errorf("alone: %+v, %v", now, err)
	}
}
