package volume

import (
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

// TestOtherGroup: a caller that means a group by its UUID gets nothing done in another one of the same name and owner, and is told the UUID of
// the group in which a volume was made.
func TestOtherGroup(t *testing.T) {
	g := stocked()
	g.UUID = "u2"
	s := plan.Snapshot{Groups: []plan.Group{g}}
	for uuid, want := range map[string]error{"": nil, "u2": nil, "u1": plan.ErrOtherGroup} {
		meant := func(w *Spec) { w.GroupUUID = uuid }
		for name, decide := range map[string]Decide{"create": Create, "delete": Delete, "resize": Resize, "activate": Activate, "settle": Settle} {
			p, err := decide(s, volume("lin", 100, meant))
			if !errors.Is(err, want) || err != nil && len(p.Steps) > 0 || err == nil && p.GroupUUID != "u2" {
				t.Errorf("%s with UUID %q: %v in %q, %v", name, uuid, said(p.Plan), p.GroupUUID, err)
			}
		}
		p, err := Create(s, volume("new", 4, meant))
		if !errors.Is(err, want) || (len(p.Steps) > 0) != (want == nil) || err == nil && p.GroupUUID != "u2" {
			t.Errorf("a new one with UUID %q: %v in %q, %v", uuid, said(p.Plan), p.GroupUUID, err)
		}
		if p, err := Delete(s, volume("gone", 4, meant)); !errors.Is(err, want) || len(p.Steps) > 0 {
			t.Errorf("a volume that is not there, with UUID %q: %v, %v", uuid, said(p.Plan), err)
		}
	}
}
