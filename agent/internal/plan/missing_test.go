package plan

import (
	"errors"
	"testing"
)

// lacking is a group of sda, and of sdb that is not there.
func lacking(edit func(*Group)) Group {
	g := groupOf("vg", me, member("sda", "vg", me), orphan("sdb", me))
	g.PVs[1].Path, g.Partial = "", true
	edit(&g)
	return g
}

func TestRemoveGroup_withoutMissingDevice(t *testing.T) {
	a, gone := member("sda", "vg", me), orphan("sdb", me)
	whole := func(*Group) {}
	seen := func(g Group, others ...Device) Snapshot {
		return Snapshot{Devices: append([]Device{a}, others...), Groups: []Group{g}}
	}
	unread := func(edit func(*Device)) Device {
		d := Device{Path: "/dev/sdc", KernelName: "sdc", Type: "disk", SizeBytes: 1 << 40, Unreadable: []string{"content: input/output error"}}
		edit(&d)
		return d
	}
	steps := []string{
		"drop the missing devices of group vg", "remove group vg", "release physical volume pv-sda on " + a.Path,
	}
	unknown := append(append([]string{}, steps...),
		"The device with physical volume "+gone.PVUUID+" (10 bytes) was missing from group vg and is left behind as it is.")
	for name, tt := range map[string]scenario{
		"drops what is missing and says what it was": {snapshot: seen(lacking(whole)), want: spec(a), plan: unknown},
		"names it by the records": {
			snapshot: seen(lacking(whole)), want: spec(a, gone), plan: append(append([]string{}, steps...),
				"Device "+gone.Path+` (wwn "0x5000sdb", serial "SERIAL-sdb", 107374182400 bytes) was missing from group vg and is left behind as it is.`),
		},
		"minds no clean disk":          {snapshot: seen(lacking(whole), cleanDisk("sdc")), want: spec(a), plan: unknown},
		"minds no disk of somebody":    {snapshot: seen(lacking(whole), signed("ext4", "", "")), want: spec(a), plan: unknown},
		"minds no other volume":        {snapshot: seen(lacking(whole), member("sdc", "vg9", "")), want: spec(a), plan: unknown},
		"minds no mounted disk":        {snapshot: seen(lacking(whole), unread(func(d *Device) { d.Signatures = []Signature{{Type: "xfs"}} })), want: spec(a), plan: unknown},
		"minds no unreadable CD":       {snapshot: seen(lacking(whole), unread(func(d *Device) { d.Type = "rom" })), want: spec(a), plan: unknown},
		"minds no device-mapper":       {snapshot: seen(lacking(whole), unread(func(d *Device) { d.Type = "dm" })), want: spec(a), plan: unknown},
		"minds no loop without a file": {snapshot: seen(lacking(whole), unread(func(d *Device) { d.Type, d.SizeBytes = "loop", 0 })), want: spec(a), plan: unknown},

		"refuses while a disk cannot be read": {
			snapshot: seen(lacking(whole), unread(func(*Device) {})), want: spec(a), err: ErrPartial, says: "/dev/sdc, which cannot be read, may be it",
		},
		"refuses while a disk that died is there": {
			snapshot: seen(lacking(whole), unread(func(d *Device) { d.SizeBytes = 0 })), want: spec(a), err: ErrPartial,
		},
		"refuses while a label cannot be read": {
			snapshot: seen(lacking(whole), signed("LVM2_member", "", "")), want: spec(a), err: ErrPartial, says: "may be it",
		},
		"refuses while a device carries the label": {
			snapshot: seen(lacking(whole), with(func(d *Device) { d.PVUUID = gone.PVUUID })), want: spec(a), err: ErrPartial, says: "carries its label",
		},
		"refuses volumes": {
			snapshot: seen(lacking(func(g *Group) { g.Volumes = []string{"precious"} })), want: spec(a), err: ErrHasVolumes, says: "precious",
		},
		"refuses extents on what is missing": {
			snapshot: seen(lacking(func(g *Group) { g.PVs[1].FreeBytes-- })), want: spec(a), err: ErrHasVolumes,
		},
		"refuses extents of no volume": {
			snapshot: seen(lacking(func(g *Group) { g.FreeBytes-- })), want: spec(a), err: ErrHasVolumes,
		},
		"refuses a thin pool, even an empty one": {
			snapshot: seen(lacking(func(g *Group) { g.Pools = []Pool{{Name: "thin", Ours: true}} })), want: spec(a), err: ErrHasVolumes, says: "thin",
		},
		"refuses when nothing is left": {
			snapshot: seen(lacking(func(g *Group) { g.PVs[0].Path = "" })), want: spec(a), err: ErrPartial,
		},
		"refuses another owner's group": {
			snapshot: seen(lacking(func(g *Group) { g.OwnerUID = somebody })), want: spec(a), err: ErrNotOurs,
		},
		"refuses a foreign group": {snapshot: Snapshot{Devices: []Device{a}, ForeignGroups: []string{"vg"}}, want: spec(a), err: ErrNotOurs},
	} {
		t.Run(name, func(t *testing.T) { tt.check(t, RemoveGroup) })
	}
}

// TestReduceMissing_onlyToRemove: what is missing is given up on for a removal, never to change a group that stays.
func TestReduceMissing_onlyToRemove(t *testing.T) {
	s := Snapshot{Devices: []Device{member("sda", "vg", me), cleanDisk("sdc")}, Groups: []Group{lacking(func(*Group) {})}}
	for name, decide := range map[string]func(Snapshot, GroupSpec, Policy) (Plan, error){"ensure": EnsureGroup, "reduce": ReduceGroup} {
		p, err := decide(s, spec(s.Devices[0], s.Devices[1]), testPolicy)
		if !errors.Is(err, ErrPartial) || len(p.Steps) > 0 {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

// TestHiding: whoever gets no list of devices is told of each that may carry a group that is not reported.
func TestHiding(t *testing.T) {
	unread := func(edit func(*Device)) Device {
		d := Device{Path: "/dev/x", KernelName: "x", Type: "disk", SizeBytes: 1 << 40, Unreadable: []string{"content: input/output error"}}
		edit(&d)
		return d
	}
	for name, tt := range map[string]struct {
		device Device
		hides  bool
	}{
		"a clean disk":                        {cleanDisk("x"), false},
		"a disk of somebody":                  {signed("ext4", "", ""), false},
		"a part of a reported group":          {member("sda", "vg", me), false},
		"a part of a group of somebody":       {member("x", "vg9", ""), false},
		"an orphan of ours":                   {orphan("x", me), false},
		"a disk that cannot be read":          {unread(func(*Device) {}), true},
		"a part of a group that is not there": {member("x", "other", me), true},
		"a partition that cannot be read":     {unread(func(d *Device) { d.Type = "partition" }), false},
		"a CD that cannot be read":            {unread(func(d *Device) { d.Type = "rom" }), false},
		"removable media that cannot be read": {unread(func(d *Device) { d.Removable = true }), false},
		"a part of a reported group, unnamed": {with(func(d *Device) { d.PVUUID, d.Group, d.OwnerUID = member("sda", "vg", me).PVUUID, "vg", me }), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Devices: []Device{tt.device}, Groups: []Group{groupOf("vg", me, member("sda", "vg", me))}}
			if got := Hiding(s, Policy{}); (len(got) == 1 && got[0] == tt.device.Path) != tt.hides || len(got) > 1 {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestSnapshot_Absent: a group is absent only if no disk of the node can hide it.
func TestSnapshot_Absent(t *testing.T) {
	dead := Device{Path: "/dev/sdc", KernelName: "sdc", Type: "disk", SizeBytes: 1 << 40, Unreadable: []string{"content: input/output error"}}
	for name, c := range map[string]struct {
		s      Snapshot
		unsure bool
	}{
		"nothing there":                   {Snapshot{Devices: []Device{cleanDisk("sda")}}, false},
		"a disk that cannot be read":      {Snapshot{Devices: []Device{dead}}, true},
		"the same, and the group":         {Snapshot{Devices: []Device{dead}, Groups: []Group{groupOf("vg", me)}}, false},
		"the same, and another group":     {Snapshot{Devices: []Device{dead}, Groups: []Group{groupOf("vg9", me)}}, true},
		"LVM cannot report a group of it": {Snapshot{UnknownGroups: []UnknownGroup{{Name: "vg"}}}, true},
	} {
		if err := c.s.Absent("vg", me, testPolicy); errors.Is(err, ErrUnsure) != c.unsure {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGroup_IsStale: a volume is as stale as the thin pool that it is in, and as no other one.
func TestGroup_IsStale(t *testing.T) {
	g := Group{
		LogicalVolumes: []Volume{{Name: "linear"}, {Name: "thin", Pool: "p"}, {Name: "other", Pool: "q"}},
		Pools:          []Pool{{Name: "p"}, {Name: "q"}},
	}
	for of, want := range map[string]string{"": "", "linear": "linear ", "thin": "thin ", "p": "thin ", "q": "other "} {
		stale, got := g.Stale(of), ""
		for _, v := range stale.LogicalVolumes {
			if stale.IsStale(v) {
				got += v.Name + " "
			}
		}
		if got != want {
			t.Errorf("with %q stale: %q, want %q", of, got, want)
		}
	}
}
