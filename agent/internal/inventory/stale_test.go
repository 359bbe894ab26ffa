package inventory

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
)

// TestMarkStale: sdb dropped off and is back as sdc, which LVM sees. Recorded from a kernel with a disk of SCSI: the old name stays below slaves.
func TestMarkStale(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, 32) }
	hyphened := func(c string) string { return strings.Repeat(c, 6) + "-" + strings.Repeat(c, 26) }
	mapped := func(name, volume, suffix string, slaves ...string) *observed {
		return &observed{
			Device: plan.Device{KernelName: name},
			block:  block.Device{Name: name, DMUUID: lvmUUID + id("g") + id(volume) + suffix, Slaves: slaves},
		}
	}
	disk := func(name, pv string) *observed { return &observed{Device: plan.Device{KernelName: name, PVUUID: pv}} }
	vg := lvm.VG{Name: "vg", UUID: hyphened("g"), Volumes: []lvm.LV{
		{Name: "fresh", UUID: hyphened("f"), Active: true},
		{Name: "gone", UUID: hyphened("x"), Active: true, Health: plan.HealthPartial},
		{Name: "off", UUID: hyphened("o")},
		{Name: "pool", UUID: hyphened("p"), Active: true, ThinPool: true},
		{Name: "stale", UUID: hyphened("s"), Active: true},
		{Name: "thin", UUID: hyphened("t"), Active: true, Pool: "pool"},
		{Name: "two", UUID: hyphened("2"), Active: true},
	}}
	all := []*observed{
		disk("sda", "a"), disk("sdc", "b"), disk("sdx", "foreign"),
		mapped("dm-0", "f", "", "sda", "sdc"), mapped("dm-1", "s", "", "sdb"), mapped("dm-2", "x", "", "sdb"),
		mapped("dm-3", "d", "-tdata", "sdb"), mapped("dm-4", "m", "-tmeta", "sda"), mapped("dm-5", "p", "-tpool", "dm-3", "dm-4"),
		mapped("dm-6", "t", "", "dm-5"), mapped("dm-7", "2", "", "sda", "sdx"), mapped("dm-8", "o", "", "sdb"),
	}
	j := newJoin(all[:2], []lvm.PV{{UUID: "a", VGUUID: vg.UUID}, {UUID: "b", VGUUID: vg.UUID}})
	g := j.markStale(j.group(vg, "owner"), vg, all)
	want := []string{"pool", "stale", "thin", "two"}
	if got := g.AllStale(); !slices.Equal(got, want) {
		t.Errorf("stale are %v, want %v", got, want)
	}
	later := vg
	later.Volumes = slices.Clone(vg.Volumes)
	later.Volumes[4].Active, later.Volumes[6].UUID = false, hyphened("n")
	if got := keepStale(j.group(later, "owner"), g).AllStale(); !slices.Equal(got, []string{"pool", "thin"}) {
		t.Errorf("later stale are %v", got)
	}
}
