package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	me       = "uid-me"
	somebody = "uid-somebody"
)

// member is a disk in a group.
func member(name, group, owner string) Device {
	d := cleanDisk(name)
	d.PVUUID, d.Group, d.OwnerUID = "pv-"+name, group, owner
	d.Signatures, d.HeadTailZero, d.ContentDigest = []Signature{{Type: "LVM2_member"}}, false, ""
	return d
}

// orphan is a disk that a call for the owner made a physical volume of, and no more.
func orphan(name, owner string) Device {
	d := cleanDisk(name)
	d.PVUUID = stem(owner, IdentityOf(d)) + "AA-BBBB-BBBBBB"
	d.Signatures, d.HeadTailZero, d.ContentDigest = []Signature{{Type: "LVM2_member"}}, false, ""
	return d
}

func groupOf(name, owner string, devices ...Device) Group {
	g := Group{Name: name, UUID: "vg", OwnerUID: owner}
	for _, d := range devices {
		g.PVs = append(g.PVs, PV{Path: d.Path, UUID: d.PVUUID, SizeBytes: 10, FreeBytes: 10})
		g.SizeBytes += 10
		g.FreeBytes += 10
	}
	return g
}

func spec(devices ...Device) GroupSpec {
	w := GroupSpec{Name: "vg", OwnerUID: me}
	for _, d := range devices {
		w.Devices = append(w.Devices, IdentityOf(d))
	}
	return w
}

// lines is a plan as text: steps, then notes.
func lines(p Plan) []string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.String())
	}
	return append(out, p.Notes...)
}

// scenario is one row of the tables below.
type scenario struct {
	snapshot Snapshot
	want     GroupSpec
	plan     []string
	err      error
	says     string
}

func (tt scenario) check(t *testing.T, decide func(Snapshot, GroupSpec, Policy) (Plan, error)) {
	t.Helper()
	p, err := decide(tt.snapshot, tt.want, testPolicy)
	if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
		t.Fatalf("error %v, want %v", err, tt.err)
	}
	if err != nil && !strings.Contains(err.Error(), tt.says) {
		t.Errorf("error %q does not say %q", err, tt.says)
	}
	if diff := cmp.Diff(tt.plan, lines(p)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, s := range p.Steps {
		if s.Why() == "" {
			t.Errorf("%s has no reason", s)
		}
	}
}

// pvOf is the physical volume that is made on a device, and made the one that an interrupted call left there.
func pvOf(d Device) string { return stem(me, IdentityOf(d)) + "…" }
func made(d Device) string { return orphan(d.KernelName, me).PVUUID }

func TestEnsureGroup(t *testing.T) {
	a, b := cleanDisk("sda"), cleanDisk("sdb")
	inA, orphanB := member("sda", "vg", me), orphan("sdb", me)
	unseen := member("sda", "", "")
	unseen.Unreadable = []string{"volume group: not reported"}
	named := member("sda", "vg9", "")
	named.Unreadable = unseen.Unreadable
	hung := Device{Path: "/dev/disk/by-id/sdh", KernelName: "sdh", Type: "disk", SizeBytes: 1 << 30, Unreadable: []string{"content: the device does not answer"}}
	dirty := signed("ext4", "", "")
	moved := spec(a)
	moved.Devices[0].Serial = "other"
	changed := spec(a)
	changed.Devices[0].Digest = "v1:before"
	large := cleanDisk("sdb")
	large.LogicalSectorBytes = 4096
	partial := groupOf("vg", me, inA)
	partial.Partial = true
	moving := groupOf("vg", me, inA)
	moving.Moving = &Moving{FromUUID: "pv-sda", Bytes: 1}
	linked := spec(a)
	linked.Devices[0].Path = "/dev/disk/by-path/pci-sda"
	twice := spec(a)
	twice.Devices = append(twice.Devices, linked.Devices[0])
	for name, tt := range map[string]scenario{
		"makes a group": {
			snapshot: Snapshot{Devices: []Device{a, b}}, want: spec(a, b),
			plan: []string{
				"create physical volume " + pvOf(a) + " on " + a.Path, "create physical volume " + pvOf(b) + " on " + b.Path,
				"create group vg on " + a.Path + " " + b.Path,
			},
		},
		"extends a group": {
			snapshot: Snapshot{Devices: []Device{inA, b}, Groups: []Group{groupOf("vg", me, inA)}}, want: spec(a, b),
			plan: []string{"create physical volume " + pvOf(b) + " on " + b.Path, "extend group vg by " + b.Path},
		},
		"extends no group whose extents move": {
			snapshot: Snapshot{Devices: []Device{inA, b}, Groups: []Group{moving}}, want: spec(a, b), err: ErrMoving, says: "finishes that by itself",
		},
		"takes an orphan of ours": {
			snapshot: Snapshot{Devices: []Device{a, orphanB}}, want: spec(a, b),
			plan: []string{"create physical volume " + pvOf(a) + " on " + a.Path, "create group vg on " + a.Path + " " + b.Path},
		},
		"knows an orphan by any of its links": {
			snapshot: Snapshot{Devices: []Device{with(func(d *Device) {
				*d = orphan("sdb", me)
				d.Path = "/dev/disk/by-id/new-name"
			})}}, want: spec(b),
			plan: []string{"create group vg on /dev/disk/by-id/new-name"},
		},
		"does nothing when it holds": {
			snapshot: Snapshot{Devices: []Device{inA}, Groups: []Group{groupOf("vg", me, inA)}}, want: spec(a),
		},
		"does nothing when it holds, even if the group is not complete": {
			snapshot: Snapshot{Devices: []Device{inA}, Groups: []Group{partial}}, want: spec(a),
		},
		"accepts a link": {
			snapshot: Snapshot{Devices: []Device{a}}, want: linked,
			plan: []string{"create physical volume " + pvOf(a) + " on " + a.Path, "create group vg on " + a.Path},
		},
		"refuses to extend a group that is not complete": {
			snapshot: Snapshot{Devices: []Device{inA, b}, Groups: []Group{partial}}, want: spec(a, b), err: ErrPartial, says: "not complete",
		},
		"refuses a group of disks with different sectors": {
			snapshot: Snapshot{Devices: []Device{a, large}}, want: spec(a, large), err: ErrSectorSizes, says: "4096",
		},
		"refuses to extend a group by a disk with other sectors": {
			snapshot: Snapshot{Devices: []Device{inA, large}, Groups: []Group{groupOf("vg", me, inA)}}, want: spec(large), err: ErrSectorSizes, says: "512",
		},
		"refuses a dirty disk, all or nothing": {
			snapshot: Snapshot{Devices: []Device{a, dirty}}, want: spec(a, dirty), err: ErrNotClean, says: "ext4",
		},
		"names every disk that it refuses": {
			snapshot: Snapshot{Devices: []Device{member("sda", "vg9", ""), dirty}}, want: spec(a, dirty), err: ErrNotClean, says: `"vg9"`,
		},
		"refuses a disk of another group of ours": {
			snapshot: Snapshot{Devices: []Device{member("sda", "vg2", me)}, Groups: []Group{groupOf("vg2", me)}}, want: spec(a),
			err: ErrNotClean, says: "Owned",
		},
		"refuses a disk that claims a group which is not seen": {
			snapshot: Snapshot{Devices: []Device{inA}}, want: spec(a), err: ErrNotClean, says: "Owned",
		},
		"refuses an orphan of somebody else": {
			snapshot: Snapshot{Devices: []Device{orphan("sda", somebody)}}, want: spec(a), err: ErrNotClean, says: "in no group",
		},
		"refuses an orphan that is in use": {
			snapshot: Snapshot{Devices: []Device{with(func(d *Device) { *d = orphan("sda", me); d.Use = Used })}}, want: spec(a),
			err: ErrNotClean, says: "Busy",
		},
		"refuses another disk": {snapshot: Snapshot{Devices: []Device{a}}, want: moved, err: ErrMismatch, says: "serial"},
		"refuses another member": {
			snapshot: Snapshot{Devices: []Device{inA}, Groups: []Group{groupOf("vg", me, inA)}}, want: moved, err: ErrMismatch, says: "serial",
		},
		"refuses another content": {snapshot: Snapshot{Devices: []Device{a}}, want: changed, err: ErrMismatch, says: "v1:before"},
		"refuses an absent disk":  {snapshot: Snapshot{Devices: []Device{a}}, want: spec(a, b), err: ErrNotFound, says: b.Path},
		"refuses one disk twice":  {snapshot: Snapshot{Devices: []Device{a}}, want: twice, err: ErrInvalid, says: "same device"},
		"refuses a foreign name":  {snapshot: Snapshot{Devices: []Device{a}, ForeignGroups: []string{"vg"}}, want: spec(a), err: ErrAlreadyExists},
		"refuses another owner":   {snapshot: Snapshot{Devices: []Device{a}, Groups: []Group{groupOf("vg", somebody)}}, want: spec(a), err: ErrAlreadyExists, says: somebody},
		"makes a group beside a foreign one that LVM cannot report": {
			snapshot: Snapshot{Devices: []Device{named, b}, ForeignGroups: []string{"vg9"}}, want: spec(b),
			plan: []string{"create physical volume " + pvOf(b) + " on " + b.Path, "create group vg on " + b.Path},
		},
		"refuses the name of a foreign group that LVM cannot report": {
			snapshot: Snapshot{Devices: []Device{named, b}, ForeignGroups: []string{"vg9", "vg"}}, want: spec(b), err: ErrAlreadyExists,
		},
		"refuses a new group while a label stands twice": {
			snapshot: Snapshot{Devices: []Device{unseen, b}}, want: spec(b), err: ErrUnsure, says: unseen.Path,
		},
		"refuses a new group while a disk does not answer": {
			snapshot: Snapshot{Devices: []Device{hung, b}}, want: spec(b), err: ErrUnsure, says: "take it out of the node",
		},
		"extends a group while a disk does not answer": {
			snapshot: Snapshot{Devices: []Device{inA, b, hung}, Groups: []Group{groupOf("vg", me, inA)}}, want: spec(a, b),
			plan: []string{"create physical volume " + pvOf(b) + " on " + b.Path, "extend group vg by " + b.Path},
		},
		"minds no unreadable partition": {
			snapshot: Snapshot{Devices: []Device{b, {Path: "/dev/sdz1", Type: "partition", PVUUID: "x", Unreadable: []string{"twice"}}}}, want: spec(b),
			plan: []string{"create physical volume " + pvOf(b) + " on " + b.Path, "create group vg on " + b.Path},
		},
		"refuses an ambiguous name": {snapshot: Snapshot{Devices: []Device{a}, Groups: []Group{groupOf("vg", me), groupOf("vg", me)}}, want: spec(a), err: ErrAlreadyExists, says: "2 groups of the name"},
	} {
		t.Run(name, func(t *testing.T) { tt.check(t, EnsureGroup) })
	}
}

func TestReduceGroup(t *testing.T) {
	inA, inB := member("sda", "vg", me), member("sdb", "vg", me)
	both := groupOf("vg", me, inA, inB)
	used := groupOf("vg", me, inA, inB)
	used.PVs[1].FreeBytes = 4
	partial := groupOf("vg", me, inA, inB)
	partial.Partial = true
	moving := groupOf("vg", me, inA, inB)
	moving.Moving = &Moving{FromUUID: "pv-sda", Bytes: 1}
	unlisted := groupOf("vg", me, inA)
	here := func(g Group, devices ...Device) Snapshot { return Snapshot{Devices: devices, Groups: []Group{g}} }
	other := spec(inB)
	other.Devices[0].WWN = "x"
	for name, tt := range map[string]scenario{
		"takes a disk out": {
			snapshot: here(both, inA, inB), want: spec(inB),
			plan: []string{"reduce group vg by " + inB.Path, "release physical volume pv-sdb on " + inB.Path},
		},
		"takes a disk out once, even if it is listed twice": {
			snapshot: here(both, inA, inB), want: spec(inB, inB),
			plan: []string{"reduce group vg by " + inB.Path, "release physical volume pv-sdb on " + inB.Path},
		},
		"releases an orphan": {
			snapshot: here(unlisted, inA, orphan("sdb", me)), want: spec(inB),
			plan: []string{"release physical volume " + made(cleanDisk("sdb")) + " on " + inB.Path},
		},
		"needs nothing for a clean disk": {snapshot: here(unlisted, inA, cleanDisk("sdb")), want: spec(inB)},
		"says that a disk is absent": {
			snapshot: here(unlisted, inA), want: spec(inB), plan: []string{"Device " + inB.Path + " is absent."},
		},
		"leaves a dirty disk alone": {
			snapshot: here(unlisted, inA, signed("xfs", "", "")), want: spec(inB),
			plan: []string{"Left alone: device /dev/disk/by-id/ata-sdb is refused: Filesystem: The device carries an xfs filesystem."},
		},
		"needs no group":       {snapshot: Snapshot{Devices: []Device{cleanDisk("sdb")}}, want: spec(inB)},
		"refuses the last one": {snapshot: here(both, inA, inB), want: spec(inA, inB), err: ErrLastDevice},
		"refuses allocated extents": {
			snapshot: here(used, inA, inB), want: spec(inB), err: ErrHoldsData, says: "6 bytes",
		},
		"refuses a group that is not complete": {snapshot: here(partial, inA, inB), want: spec(inB), err: ErrPartial},
		"waits for a move of extents":          {snapshot: here(moving, inA, inB), want: spec(inB), err: ErrMoving, says: "finishes that by itself"},
		"refuses another disk":                 {snapshot: here(both, inA, inB), want: other, err: ErrMismatch, says: "wwn"},
		"refuses a disk that the group does not list": {
			snapshot: here(unlisted, inA, inB), want: spec(inB), err: ErrHoldsData,
		},
		"refuses another owner's group": {snapshot: here(groupOf("vg", somebody), inA), want: spec(inA), err: ErrNotOurs},
		"refuses another owner's disk": {
			snapshot: here(both, inA, inB, member("sdc", "vg3", somebody)), want: spec(cleanDisk("sdc")), err: ErrNotOurs, says: "vg3",
		},
		"refuses a foreign group": {snapshot: Snapshot{ForeignGroups: []string{"vg"}}, want: spec(inA), err: ErrNotOurs},
	} {
		t.Run(name, func(t *testing.T) { tt.check(t, ReduceGroup) })
	}
}

func TestRemoveGroup(t *testing.T) {
	inA, inB := member("sda", "vg", me), member("sdb", "vg", me)
	both := groupOf("vg", me, inA, inB)
	full, hidden, partial, half := both, both, both, both
	full.Volumes = []string{"one", "two"}
	hidden.PVs = []PV{{Path: inA.Path, UUID: inA.PVUUID, SizeBytes: 10, FreeBytes: 9}}
	partial.Partial = true
	half.FreeBytes--
	here := func(g Group, devices ...Device) Snapshot { return Snapshot{Devices: devices, Groups: []Group{g}} }
	other := spec(inB)
	other.Devices[0].WWN = "x"
	for name, tt := range map[string]scenario{
		"removes the group and releases its disks, listed or not": {
			snapshot: here(both, inA, inB), want: spec(inA),
			plan: []string{
				"remove group vg", "release physical volume pv-sda on " + inA.Path, "release physical volume pv-sdb on " + inB.Path,
			},
		},
		"does nothing when all is gone": {snapshot: Snapshot{Devices: []Device{cleanDisk("sda")}}, want: spec(inA)},
		"releases orphans, listed or not": {
			snapshot: Snapshot{Devices: []Device{orphan("sda", me), orphan("sdb", me), orphan("sdc", somebody)}}, want: spec(inB, inB),
			plan: []string{
				"release physical volume " + made(cleanDisk("sdb")) + " on " + inB.Path,
				"release physical volume " + made(cleanDisk("sda")) + " on " + inA.Path,
			},
		},
		"says what it leaves alone": {
			snapshot: Snapshot{Devices: []Device{cleanDisk("sdb"), member("sdc", "vg9", "")}}, want: GroupSpec{
				Name: "vg", OwnerUID: me, Devices: append(other.Devices, IdentityOf(inA), IdentityOf(cleanDisk("sdc"))),
			},
			plan: []string{
				`Left alone: device /dev/disk/by-id/ata-sdb is not as described: wwn is "0x5000sdb", not "x".`,
				"Device /dev/disk/by-id/ata-sda is absent; nothing was done to it.",
				`Left alone: device /dev/disk/by-id/ata-sdc is refused: LVMPhysicalVolume: The device is a physical volume of the LVM group "vg9".`,
			},
		},
		"refuses volumes":              {snapshot: here(full, inA, inB), want: spec(inA), err: ErrHasVolumes, says: "2 logical volumes: one, two"},
		"refuses hidden volumes":       {snapshot: here(hidden, inA, inB), want: spec(inA), err: ErrHasVolumes, says: "hidden"},
		"refuses extents of no volume": {snapshot: here(half, inA, inB), want: spec(inA), err: ErrHasVolumes},
		"refuses a group that is not complete, when nobody knows what is missing": {
			snapshot: here(partial, inA, inB), want: spec(inA), err: ErrPartial,
		},
		"refuses another owner's group": {snapshot: here(groupOf("vg", somebody), inA), want: spec(inA), err: ErrNotOurs},
	} {
		t.Run(name, func(t *testing.T) { tt.check(t, RemoveGroup) })
	}
}

func TestRemoveGroup_emptyPoolOfOursGoesFirst(t *testing.T) {
	d := member("sda", "vg", me)
	g := groupOf("vg", me, d)
	g.FreeBytes, g.PVs[0].FreeBytes = 2, 2
	g.Pools = []Pool{{Name: "pool", Ours: true, Active: true}}
	p, err := RemoveGroup(Snapshot{Devices: []Device{d}, Groups: []Group{g.Named()}}, spec(d), Policy{})
	want := []string{
		"deactivate vg/pool", "remove thin pool vg/pool", "remove group vg", "release physical volume " + d.PVUUID + " on " + d.Path,
	}
	if diff := cmp.Diff(want, lines(p)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if why := p.Steps[1].Why(); !strings.Contains(why, "holds no volume") {
		t.Errorf("reason %q", why)
	}
	for name, edit := range map[string]func(*Group){
		"a pool that is not ours": func(g *Group) { g.Pools[0].Ours = false },
		"a pool with a volume":    func(g *Group) { g.LogicalVolumes = []Volume{{Name: "v", Pool: "pool"}} },
		"a missing device":        func(g *Group) { g.Partial = true },
	} {
		kept := g
		kept.Pools = []Pool{g.Pools[0]}
		edit(&kept)
		if p, err := RemoveGroup(Snapshot{Devices: []Device{d}, Groups: []Group{kept.Named()}}, spec(d), Policy{}); !errors.Is(err, ErrHasVolumes) {
			t.Errorf("%s: %v, %v", name, lines(p), err)
		}
	}
}

func TestPlan_touches(t *testing.T) {
	p := Plan{Steps: []Step{
		ReduceVG{GroupDevices: []string{"b", "c"}, Devices: []string{"c"}},
		nil,
		WipeDevice{token: Token{device: Identity{Path: "a"}}},
		ReleasePV{token: Token{device: Identity{Path: "c"}}},
	}}
	if diff := cmp.Diff([]string{"a", "b", "c"}, p.Touches()); diff != "" {
		t.Errorf("touches (-want +got):\n%s", diff)
	}
}

// TestGroup_unknown: what LVM cannot report does not count as absent, and hides nothing else.
func TestGroup_unknown(t *testing.T) {
	a, b := cleanDisk("sda"), member("sdb", "vg", me)
	seen := groupOf("vg", me, b, member("sdc", "vg", me))
	unknown := func(name, owner string) UnknownGroup {
		return UnknownGroup{Name: name, UUID: "U", OwnerUID: owner, Devices: []string{"/dev/sdz"}, Reason: "exit status 5"}
	}
	for name, c := range map[string]struct {
		unknown UnknownGroup
		// absent and seen: whether nothing is decided about the group vg, when none of the name is seen, and when one is.
		absent, seen bool
	}{
		"it is the group":                            {unknown("vg", me), true, true},
		"it is one of the owner, renamed":            {unknown("renamed", me), true, false},
		"nobody can tell which one it is":            {UnknownGroup{Devices: []string{"/dev/sdz"}, Reason: "exit status 5"}, true, false},
		"it is one of another owner":                 {unknown("other", somebody), false, false},
		"it is one of another owner and of the name": {unknown("vg", somebody), true, true},
	} {
		for what, decide := range map[string]func(Snapshot, GroupSpec, Policy) (Plan, error){
			"ensure": EnsureGroup, "reduce": ReduceGroup, "remove": RemoveGroup,
		} {
			absent := Snapshot{Devices: []Device{a, orphan("sdd", me)}, UnknownGroups: []UnknownGroup{c.unknown}}
			p, err := decide(absent, spec(a), testPolicy)
			if errors.Is(err, ErrUnsure) != c.absent || c.absent && (len(p.Steps) > 0 || !strings.Contains(err.Error(), "/dev/sdz: exit status 5")) {
				t.Errorf("%s, no group is seen, %s: %v, %v", name, what, lines(p), err)
			}
			there := Snapshot{Devices: []Device{b}, Groups: []Group{seen}, UnknownGroups: []UnknownGroup{c.unknown}}
			if p, err = decide(there, spec(b), testPolicy); errors.Is(err, ErrUnsure) != c.seen || !c.seen && err != nil {
				t.Errorf("%s, a group is seen, %s: %v, %v", name, what, lines(p), err)
			}
		}
	}
}

func TestSnapshot_unknown(t *testing.T) {
	s := Snapshot{UnknownGroups: []UnknownGroup{
		{Devices: []string{"/dev/a", "/dev/b"}, Reason: "damaged"}, {Name: "vg", UUID: "U", Devices: []string{"/dev/c"}, Reason: "locked"},
	}}
	const want = "a volume group whose metadata cannot be read on /dev/a, /dev/b: damaged; volume group vg (UUID U) on /dev/c: locked"
	if got := s.Unknown(); got != want || (Snapshot{}).Unknown() != "" {
		t.Errorf("%q", got)
	}
}
