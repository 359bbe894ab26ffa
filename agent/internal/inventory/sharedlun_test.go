package inventory

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/refusal"
	"quarry.storage/quarry/pkg/sharedlun"
)

// onRecord are the devices that are known to be LUNs of Iscsis.
type onRecord struct {
	names []string
	err   error
	asked int
}

func (o *onRecord) Devices() ([]string, error) {
	o.asked++
	return o.names, o.err
}

// TestObserve_sharedLUN: a LUN of an Iscsi that does not answer leaves the groups of the node known, and is not free for that. Any other device that does not answer
// may hide a group.
func TestObserve_sharedLUN(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(f *fake)
		known   onRecord
		sees    bool
		refusal string
		asked   int
	}{
		"all can be read": {known: onRecord{names: []string{"sdb"}}, sees: true},
		"the LUN does not answer": {
			edit: func(f *fake) { f.probeErr["/dev/sdb"] = errBroken }, known: onRecord{names: []string{"sdb"}}, sees: true, refusal: refusal.LVM, asked: 1,
		},
		"it does, and others are not known": {
			edit:  func(f *fake) { f.probeErr["/dev/sdb"] = errBroken },
			known: onRecord{names: []string{"sdb"}, err: errors.New("sysfs")}, sees: true, refusal: refusal.LVM, asked: 1,
		},
		"another disk does not answer": {
			edit: func(f *fake) { f.probeErr["/dev/sdb"] = errBroken }, known: onRecord{names: []string{"sdc"}}, refusal: refusal.Unreadable, asked: 1,
		},
		"nobody knows": {
			edit: func(f *fake) { f.probeErr["/dev/sdb"] = errBroken }, known: onRecord{err: errBroken}, refusal: refusal.Unreadable, asked: 1,
		},
		"a label was read, and its group was not": {
			edit:  func(f *fake) { f.label("sdb", ""); f.probeErr["/dev/sda"] = errBroken },
			known: onRecord{names: []string{"sdb"}}, refusal: refusal.Unreadable, asked: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake("sda", "sdb")
			if c.edit != nil {
				c.edit(f)
			}
			i := f.inventory(t)
			i.cfg.SharedLUNs = &c.known
			snap, err := i.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			policy := plan.Policy{}
			if err := snap.SeesAll(policy); (err == nil) != c.sees {
				t.Errorf("%v", err)
			}
			if hiding := plan.Hiding(snap, policy); (len(hiding) == 0) != c.sees {
				t.Errorf("hiding %v", hiding)
			}
			refusals := plan.Judge(byName(snap)["sdb"], policy)
			if c.refusal != "" && (len(refusals) == 0 || refusals[0].Reason != c.refusal) || c.known.asked != c.asked {
				t.Errorf("%+v, asked %d times", refusals, c.known.asked)
			}
		})
	}
}

// TestObserve_sharedGroup: LVM is not asked about the group of an Iscsi, which changes with each volume. Whose it is says the LUN itself; where it does not say that whole, LVM is asked.
func TestObserve_sharedGroup(t *testing.T) {
	const owner = "6d1f8f3e-0000-4000-8000-000000000014"
	tags := []string{sharedlun.TagOwner + owner, sharedlun.TagEpoch + "3"}
	name, id := "quarry-"+owner, sharedlun.SystemID(owner)
	for about, c := range map[string]struct {
		edit func(f *fake)
		// asked are the devices that LVM is asked about.
		asked []string
	}{
		"the LUN says whose it is": {},
		"beside a group of the node": {
			edit: func(f *fake) {
				f.node.groups["local"] = &lvmGroup{tags: oursOf, disks: []string{"sda"}}
				f.label("sda", "usda")
				f.names("sda", format.Group{Name: "local", UUID: "uuid-local", Tags: oursOf})
			}, asked: []string{"/dev/sda"},
		},
		"it has no system ID": {
			edit:  func(f *fake) { f.names("sdb", format.Group{Name: name, UUID: "uuid-" + name, Tags: tags}) },
			asked: []string{"/dev/sdb"},
		},
		"it is said to be of a Cluster, too": {
			edit: func(f *fake) {
				f.names("sdb", format.Group{Name: name, UUID: "uuid-" + name, Tags: append(slices.Clone(tags), quarry.TagCluster+"uid"), SystemID: id})
			}, asked: []string{"/dev/sdb"},
		},
		"its metadata is damaged": {edit: func(f *fake) { f.names("sdb", format.Group{}) }, asked: []string{"/dev/sdb"}},
		"it is on two devices": {
			edit: func(f *fake) {
				f.label("sda", "usda")
				f.names("sda", format.Group{Name: name, UUID: "uuid-" + name, Tags: tags, SystemID: id})
			}, asked: []string{"/dev/sda", "/dev/sdb"},
		},
		"another device may be a part of it": {
			edit:  func(f *fake) { f.label("sda", "usda"); f.names("sda", format.Group{}) },
			asked: []string{"/dev/sda", "/dev/sdb"},
		},
	} {
		t.Run(about, func(t *testing.T) {
			f := newLVMFake(map[string]*lvmGroup{name: {tags: tags, disks: []string{"sdb"}}}, "sda", "sdb")
			f.names("sdb", format.Group{Name: name, UUID: "uuid-" + name, Tags: tags, SystemID: id})
			if c.edit != nil {
				c.edit(f)
			}
			snap, err := f.inventory(t).Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var asked []string
			for _, devices := range f.reports {
				asked = append(asked, devices...)
			}
			if d := cmp.Diff(c.asked, asked); d != "" {
				t.Errorf("LVM is asked about (-want +got):\n%s", d)
			}
			if slices.Contains(asked, "/dev/sdb") {
				return
			}
			d := byName(snap)["sdb"]
			if d.Group != name || d.OtherNode != id || d.OwnerUID != "" || len(d.Unreadable) > 0 || !slices.Contains(snap.ForeignGroups, name) {
				t.Errorf("%+v, foreign %v", d, snap.ForeignGroups)
			}
			refusals := plan.Judge(d, plan.Policy{})
			if !slices.ContainsFunc(refusals, func(r plan.Refusal) bool { return r.Reason == refusal.OtherNode }) {
				t.Errorf("%+v", refusals)
			}
		})
	}
}
