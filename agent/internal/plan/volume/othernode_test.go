package volume

import (
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

// TestOtherNode: nothing is done to a volume of a group of another node, and one of the node's own group beside it is served.
func TestOtherNode(t *testing.T) {
	other := suspended("thin", "lin", "pool")
	other.Groups[0].Access, other.Groups[0].SystemID = plan.AccessOther, "quarry-n2"
	if steps := said(Resume(other, "vg")); len(steps) != 0 {
		t.Errorf("resumed: %v", steps)
	}
	for i := range other.Groups[0].Pools {
		other.Groups[0].Pools[i].UsageUnknown = true
	}
	if steps := said(Measure(other, "vg")); len(steps) != 0 {
		t.Errorf("measured: %v", steps)
	}
	want := volume("lin", 100)
	for name, decide := range map[string]Decide{"create": Create, "delete": Delete, "resize": Resize, "activate": Activate, "settle": Settle} {
		p, err := decide(other, want)
		if len(p.Steps) != 0 || !errors.Is(err, plan.ErrOtherNode) || !errors.Is(err, plan.ErrNotOurs) {
			t.Errorf("%s: %v, %v", name, said(p.Plan), err)
		}
	}
	mine := stocked()
	mine.UUID, mine.Access = "own", plan.AccessOwn
	both := plan.Snapshot{Groups: append(other.Groups, mine)}
	p, err := Delete(both, want)
	if err != nil || len(p.Steps) != 1 || p.GroupUUID != "own" {
		t.Errorf("beside another node's: %v of %s, %v", said(p.Plan), p.GroupUUID, err)
	}
}
