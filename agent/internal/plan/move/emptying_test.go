package move

import (
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/emptying"
)

// emptyingScene is a case of the table as an agent sees it.
func emptyingScene(c emptying.Case) plan.Snapshot {
	s := scene(func(g *plan.Group) {
		free, used := int64(emptying.Size), int64(emptying.Used)
		if c.Full {
			free = 0
		}
		for i := range g.PVs {
			g.PVs[i].SizeBytes, g.PVs[i].FreeBytes = emptying.Size, free
		}
		if g.PVs[0].FreeBytes = emptying.Size; !c.Empty {
			g.PVs[0].FreeBytes -= used
		}
		g.Partial = c.Missing
		if c.Alone {
			g.PVs = g.PVs[:1]
		} else if c.Missing {
			g.PVs[2].Path = ""
		}
		if c.Stale {
			oldDevice(g)
		}
		if c.Pool {
			g.Pools = []plan.Pool{{Name: "p"}}
		}
		switch c.Move {
		case emptying.Own:
			g.Moving = &plan.Moving{FromUUID: "p1", Bytes: used}
		case emptying.Another:
			g.Moving = &plan.Moving{FromUUID: "p2", Bytes: 1}
		case emptying.Persons:
			g.Moving = &plan.Moving{FromUUID: "p1", Bytes: plan.SliceBytes + 1}
		}
	})
	for i := range s.Devices {
		if d := &s.Devices[i]; d.PVUUID != "" {
			d.Group, d.OwnerUID = "g", owner
		}
	}
	return s
}

// TestEmptying: the agent keeps to the rule that the controller decides by. A device that is empty is asked to leave, any other to be emptied.
func TestEmptying(t *testing.T) {
	for _, c := range emptying.Cases {
		s := emptyingScene(c)
		id, got := plan.Identity{Path: "/dev/a", Serial: "A", SizeBytes: 1}, emptying.Stays
		if c.Empty {
			p, err := plan.ReduceGroup(s, plan.GroupSpec{Name: "g", OwnerUID: owner, Devices: []plan.Identity{id}}, plan.Policy{})
			if err == nil && len(p.Steps) > 0 {
				got = emptying.Leaves
			}
			if got != c.Want {
				t.Errorf("%s: %d by %v: %v", c.Name, got, p.Steps, err)
			}
			continue
		}
		p, err := Next(s, Spec{Group: "g", OwnerUID: owner, Device: id})
		if err == nil && len(p.Steps) > 0 {
			got = emptying.Moves
		}
		if got != c.Want {
			t.Errorf("%s: %d by %v: %v", c.Name, got, p.Steps, err)
		}
	}
}
