package inventory

import (
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/refusal"
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
