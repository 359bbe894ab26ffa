package retire

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/emptying"
)

// emptyingPVs are the devices of the group.
func emptyingPVs(c emptying.Case) []decide.PV {
	var out []decide.PV
	for _, name := range []string{"a", "b", "c"} {
		pv := decide.PV{Path: "/dev/disk/by-id/" + name, SizeBytes: emptying.Size, FreeBytes: emptying.Size}
		switch {
		case name == "a" && !c.Empty:
			pv.FreeBytes -= emptying.Used
		case name != "a" && c.Full:
			pv.FreeBytes = 0
		}
		out = append(out, pv)
	}
	if c.Alone {
		return out[:1]
	}
	if c.Missing {
		out[2].Path = ""
	}
	return out
}

// emptyingInput is a case of the table as the controller sees it.
func emptyingInput(c emptying.Case) Input {
	g := decide.Group{Name: "g", OwnerUID: "uid", Partial: c.Missing, PVs: emptyingPVs(c)}
	if c.Stale {
		g.StaleVolumes = []string{"v"}
	}
	if c.Pool {
		g.Pools = []decide.ThinPool{{Name: "p"}}
	}
	g.Moving = emptyingMove(c)
	if g.Moving != nil && g.Moving.Left == "" && (c.Missing || c.Stale) {
		g.Moving.Left = "it waits"
	}
	node := decide.Node{Devices: []decide.Device{device("a", "uid"), device("b", "uid"), device("c", "uid")}}
	return Input{Node: node, UID: "uid", Group: &g, Devices: list("a"), All: list("a")}
}

func emptyingMove(c emptying.Case) *decide.Moving {
	switch c.Move {
	case emptying.Own:
		return &decide.Moving{Bytes: emptying.Used, From: "/dev/disk/by-id/a"}
	case emptying.Another:
		return &decide.Moving{Bytes: 1, From: "/dev/disk/by-id/b"}
	case emptying.Persons:
		return &decide.Moving{Bytes: 1 << 30, From: "/dev/disk/by-id/a", Left: "a person began it"}
	}
	return nil
}

// TestEmptying: the controller asks for what the agent does, and for nothing that it would refuse.
func TestEmptying(t *testing.T) {
	for _, c := range emptying.Cases {
		out, got := Decide(emptyingInput(c)), emptying.Stays
		switch {
		case out.Move != nil:
			got = emptying.Moves
		case out.Release != nil:
			got = emptying.Leaves
		}
		if got != c.Want {
			t.Errorf("%s: %d: %s", c.Name, got, out.Condition.Message)
		}
	}
}
