package inventory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
)

// lvmNode is LVM on the disks of a fake host.
type lvmNode struct {
	groups map[string]*lvmGroup // by name
}

type lvmGroup struct {
	tags []string
	// disks by name.
	disks []string
	// err is why LVM cannot report it; locked makes it wait.
	err    error
	locked bool
	// earlier is why what LVM reports of it is a state of before.
	earlier string
}

// report says what LVM would, and fails as a whole when a group of the devices is broken.
func (n *lvmNode) report(ctx context.Context, devices []string) (vgs []lvm.VG, pvs []lvm.PV, err error) {
	seen := map[string]bool{}
	for name, g := range n.groups {
		if !slices.ContainsFunc(g.disks, func(d string) bool { return slices.Contains(devices, "/dev/"+d) }) {
			continue
		}
		if g.locked {
			<-ctx.Done()
			return nil, nil, context.Cause(ctx)
		}
		err = errors.Join(err, g.err)
		vgs = append(vgs, lvm.VG{Name: name, UUID: "uuid-" + name, Tags: g.tags, Earlier: g.earlier})
		for _, d := range g.disks {
			pv := lvm.PV{UUID: "u" + d, VGName: name, VGUUID: "uuid-" + name, Missing: !slices.Contains(devices, "/dev/"+d)}
			seen["/dev/"+d] = true
			pvs = append(pvs, n.at(pv, d))
		}
	}
	for _, d := range devices {
		if name := strings.TrimPrefix(d, "/dev/"); !seen[d] {
			pvs = append(pvs, n.at(lvm.PV{UUID: "u" + name}, name))
		}
	}
	lvm.Order(vgs, pvs)
	if err != nil {
		return nil, nil, err
	}
	return vgs, pvs, nil
}

// at numbers a physical volume as newFake numbers its disk.
func (n *lvmNode) at(pv lvm.PV, name string) lvm.PV {
	if !pv.Missing {
		pv.Path, pv.Major, pv.Minor = "/dev/"+name, 8, uint32(16*(name[2]-'a'))
	}
	return pv
}

// newLVMFake is a host with disks from sda on, of which those of the groups carry their metadata.
func newLVMFake(groups map[string]*lvmGroup, names ...string) *fake {
	f := newFake(names...)
	f.node = &lvmNode{groups: groups}
	for name, g := range groups {
		for _, d := range g.disks {
			f.label(d, "u"+d)
			f.names(d, format.Group{Name: name, UUID: "uuid-" + name, Tags: g.tags})
		}
	}
	return f
}

// names says which group the metadata on a disk names; one without a name has been damaged.
func (f *fake) names(name string, g format.Group) {
	facts := f.facts["/dev/"+name]
	facts.PVInGroup, facts.PVAreas, facts.PVGroup = true, 1, g
	f.facts["/dev/"+name] = facts
}

var oursOf = []string{quarry.TagCluster + "uid"}

func TestReport_onlyWhatFailsIsUnknown(t *testing.T) {
	broken := errors.New("exit code 5")
	ours := func(disks ...string) *lvmGroup { return &lvmGroup{tags: oursOf, disks: disks} }
	foreign := func(disks ...string) *lvmGroup { return &lvmGroup{disks: disks} }
	failing := func(g *lvmGroup) *lvmGroup { g.err = broken; return g }
	locked := func(g *lvmGroup) *lvmGroup { g.locked = true; return g }
	earlier := func(g *lvmGroup) *lvmGroup { g.earlier = "a disk that is away knows more"; return g }
	unknown := func(name, uid, reason string, disks ...string) plan.UnknownGroup {
		u := plan.UnknownGroup{Name: name, OwnerUID: uid, Reason: reason}
		if name != "" {
			u.UUID = "uuid-" + name
		}
		for _, d := range disks {
			u.Devices = append(u.Devices, "/dev/disk/by-id/"+d)
		}
		return u
	}
	for name, c := range map[string]struct {
		groups map[string]*lvmGroup
		edit   func(*fake)
		// known are the groups of ours, foreign those that are not; unread are the disks of which not all is known.
		known, foreign []string
		unknown        []plan.UnknownGroup
		unread         []string
		asked          int
	}{
		"all is well": {
			groups: map[string]*lvmGroup{"a": ours("sda"), "x": foreign("sdb")}, known: []string{"a"}, foreign: []string{"x"}, asked: 1,
		},
		"a foreign group is broken": {
			groups: map[string]*lvmGroup{"a": ours("sda"), "x": failing(foreign("sdb"))}, known: []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb"}, asked: 3,
		},
		"the lock of a foreign group is held": {
			groups: map[string]*lvmGroup{"a": ours("sda", "sdc"), "x": locked(foreign("sdb"))}, known: []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb"}, asked: 3,
		},
		"one of two of ours is broken": {
			groups: map[string]*lvmGroup{"a": ours("sda"), "b": failing(ours("sdb", "sdc")), "x": foreign("sdd")},
			known:  []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb", "sdc"}, asked: 4,
			unknown: []plan.UnknownGroup{unknown("b", "uid", "exit code 5", "sdb", "sdc")},
		},
		"the lock of one of ours is held": {
			groups: map[string]*lvmGroup{"a": ours("sda"), "b": locked(ours("sdb"))},
			known:  []string{"a"}, unread: []string{"sdb"}, asked: 3,
			unknown: []plan.UnknownGroup{unknown("b", "uid", errNoAnswer.Error(), "sdb")},
		},
		"the only group is broken, which is asked about once": {
			groups: map[string]*lvmGroup{"a": failing(ours("sda"))}, unread: []string{"sda"}, asked: 1,
			unknown: []plan.UnknownGroup{unknown("a", "uid", "exit code 5", "sda")},
		},
		"the metadata on one of two disks is damaged": {
			groups: map[string]*lvmGroup{"a": ours("sda", "sdc"), "x": failing(foreign("sdb"))},
			edit:   func(f *fake) { f.names("sdc", format.Group{}) },
			known:  []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb"}, asked: 4,
		},
		"one of two disks has no metadata of its group yet": {
			groups: map[string]*lvmGroup{"a": ours("sda", "sdc"), "x": failing(foreign("sdb"))},
			edit:   func(f *fake) { f.label("sdc", "usdc"); f.empty("sdc") },
			known:  []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb"}, asked: 5,
		},
		"a disk is in no group": {
			groups: map[string]*lvmGroup{"a": ours("sda"), "x": locked(foreign("sdb"))},
			edit:   func(f *fake) { f.label("sdc", "usdc"); f.empty("sdc") },
			known:  []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb"}, asked: 4,
		},
		"the metadata of a group is damaged everywhere": {
			groups: map[string]*lvmGroup{"a": ours("sda")},
			edit:   func(f *fake) { f.label("sdb", "usdb"); f.names("sdb", format.Group{}) },
			known:  []string{"a"}, unread: []string{"sdb"}, asked: 1,
			unknown: []plan.UnknownGroup{unknown("", "", errUnnamed.Error(), "sdb")},
		},
		"so it is, and another group is broken": {
			groups: map[string]*lvmGroup{"a": ours("sda"), "x": failing(foreign("sdc"))},
			edit:   func(f *fake) { f.label("sdb", "usdb"); f.names("sdb", format.Group{}) },
			known:  []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb", "sdc"}, asked: 3,
			unknown: []plan.UnknownGroup{unknown("", "", errUnnamed.Error(), "sdb")},
		},
		"LVM passes over a group that a disk names": {
			groups: map[string]*lvmGroup{"a": ours("sda")},
			edit: func(f *fake) {
				f.label("sdb", "usdb")
				f.names("sdb", format.Group{Name: "b", UUID: "uuid-b", Tags: oursOf})
			},
			known: []string{"a"}, unread: []string{"sdb"}, asked: 1,
			unknown: []plan.UnknownGroup{unknown("b", "uid", errUnnamed.Error(), "sdb")},
		},
		"the disks that know the newest state of a group are away": {
			groups: map[string]*lvmGroup{"a": ours("sda"), "b": earlier(ours("sdb", "sdc")), "x": earlier(foreign("sdd"))},
			known:  []string{"a"}, foreign: []string{"x"}, unread: []string{"sdb", "sdc"}, asked: 1,
			unknown: []plan.UnknownGroup{unknown("b", "uid", "a disk that is away knows more", "sdb", "sdc")},
		},
		"two disks with the same label name a group": {
			groups: map[string]*lvmGroup{"a": ours("sda")},
			edit: func(f *fake) {
				for _, d := range []string{"sdb", "sdc"} {
					f.label(d, "twice")
					f.names(d, format.Group{Name: "b", UUID: "uuid-b", Tags: oursOf})
				}
			},
			known: []string{"a"}, unread: []string{"sdb", "sdc"}, asked: 1,
			unknown: []plan.UnknownGroup{unknown("b", "uid", "sdb, sdc carry the same physical volume", "sdb", "sdc")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLVMFake(c.groups, "sda", "sdb", "sdc", "sdd")
			if c.edit != nil {
				c.edit(f)
			}
			i := f.inventory(t)
			i.cfg.ReportTimeout = time.Second
			snap, err := i.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			known, unread := names(t, snap)
			if !slices.Equal(known, c.known) || !slices.Equal(snap.ForeignGroups, c.foreign) || !slices.Equal(unread, c.unread) {
				t.Errorf("known %q, foreign %q, unread %q", known, snap.ForeignGroups, unread)
			}
			if diff := cmp.Diff(c.unknown, snap.UnknownGroups); diff != "" {
				t.Errorf("unknown (-want +got):\n%s", diff)
			}
			if len(f.reports) != c.asked {
				t.Errorf("LVM was asked %d times: %v", len(f.reports), f.reports)
			}
		})
	}
}

// names are the groups that are known, none of which lacks a disk, and the disks of which not all is.
func names(t *testing.T, snap plan.Snapshot) (known, unread []string) {
	t.Helper()
	for _, g := range snap.Groups {
		known = append(known, g.Name)
		if slices.ContainsFunc(g.PVs, func(p plan.PV) bool { return p.Path == "" }) {
			t.Errorf("group %s lacks a disk: %+v", g.Name, g.PVs)
		}
	}
	for _, d := range snap.Devices {
		if len(d.Unreadable) > 0 {
			unread = append(unread, d.KernelName)
		}
	}
	return known, unread
}

// TestReport_devicesNameTheirGroup: also where LVM cannot report it.
func TestReport_devicesNameTheirGroup(t *testing.T) {
	f := newLVMFake(map[string]*lvmGroup{
		"a": {tags: oursOf, disks: []string{"sda"}, err: errBroken}, "x": {disks: []string{"sdb"}, err: errBroken},
	}, "sda", "sdb")
	got := f.observe(t)
	if a := got["sda"]; a.Group != "a" || a.OwnerUID != "uid" || len(a.Unreadable) != 1 {
		t.Errorf("%+v", a)
	}
	if x := got["sdb"]; x.Group != "x" || x.OwnerUID != "" || len(x.Unreadable) != 1 {
		t.Errorf("%+v", x)
	}
}

// TestReport_oneDeadline: however many groups are locked, the observation ends, with those that answer.
func TestReport_oneDeadline(t *testing.T) {
	groups := map[string]*lvmGroup{"z": {tags: oursOf, disks: []string{"sda"}}}
	names := []string{"sda"}
	for _, c := range "bcdefghijkl" {
		names = append(names, "sd"+string(c))
		groups["foreign-"+string(c)] = &lvmGroup{disks: []string{"sd" + string(c)}, locked: true}
	}
	f := newLVMFake(groups, names...)
	i := f.inventory(t)
	i.cfg.ReportTimeout = time.Second
	began := time.Now()
	snap, err := i.Observe(t.Context())
	if err != nil || len(snap.Groups) != 1 || len(snap.UnknownGroups) > 0 || len(snap.ForeignGroups) != 11 {
		t.Errorf("%+v, %v", snap, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestReport_singleGroupHasAllOfTheTime: half of it is kept for asking about groups apart, and only where that is another question.
func TestReport_singleGroupHasAllOfTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		groups map[string]*lvmGroup
		want   time.Duration
	}{
		"a single group":      {map[string]*lvmGroup{"a": {tags: oursOf, disks: []string{"sda", "sdb"}}}, time.Hour},
		"two groups":          {map[string]*lvmGroup{"a": {tags: oursOf, disks: []string{"sda"}}, "x": {disks: []string{"sdb"}}}, time.Hour / 2},
		"disks without group": {nil, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLVMFake(c.groups, "sda", "sdb")
			if c.groups == nil {
				f.label("sda", "usda")
				f.empty("sda")
			}
			i := f.inventory(t)
			i.cfg.ReportTimeout = time.Hour
			var left []time.Duration
			i.cfg.LVM = timed{i.cfg.LVM, &left}
			if _, err := i.Observe(t.Context()); err != nil || len(left) != 1 {
				t.Fatalf("%v, asked with %v left", err, left)
			}
			if left[0] > c.want || left[0] < c.want-time.Minute {
				t.Errorf("LVM has %v, want %v", left[0], c.want)
			}
		})
	}
}

// timed notes how long LVM may take.
type timed struct {
	LVM
	left *[]time.Duration
}

func (l timed) Report(ctx context.Context, devices []string) ([]lvm.VG, []lvm.PV, error) {
	end, _ := ctx.Deadline()
	*l.left = append(*l.left, time.Until(end))
	return l.LVM.Report(ctx, devices)
}

// empty makes a physical volume one without a group.
func (f *fake) empty(name string) {
	facts := f.facts["/dev/"+name]
	facts.PVInGroup, facts.PVAreas, facts.PVGroup = false, 1, format.Group{}
	f.facts["/dev/"+name] = facts
}
