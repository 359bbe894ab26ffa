package osdrecord

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestStrays: a disk is told of that is in another host than the one which has it on record, and in none of these two cases: its own host has it, or nothing tells it from all others.
func TestStrays(t *testing.T) {
	d := disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalCeph)
	alone := d
	alone.WWN = ""
	for name, tt := range map[string]struct {
		disk   decide.Device
		first  decide.AgentState
		has    bool
		second decide.AgentState
		want   string
	}{
		"it moved":                           {d, decide.AgentUp, false, decide.AgentUp, "n1 n2 /dev/sdb"},
		"it moved, and its host is off":      {d, decide.AgentUnreachable, true, decide.AgentUp, "n1 n2 /dev/sdb"},
		"both see it":                        {d, decide.AgentUp, true, decide.AgentUp, ""},
		"the other one said so a while ago":  {d, decide.AgentUp, false, decide.AgentUnreachable, "n1 n2 /dev/sdb"},
		"it has nothing but a serial number": {alone, decide.AgentUp, false, decide.AgentUp, ""},
	} {
		nodes := map[string]decide.Node{
			"n1": {Name: "n1", Agent: tt.first}, "n2": {Name: "n2", Agent: tt.second, Devices: []decide.Device{tt.disk}}, "n3": {Name: "n3", Agent: decide.AgentUp},
		}
		if tt.has {
			n1 := nodes["n1"]
			n1.Devices = []decide.Device{tt.disk}
			nodes["n1"] = n1
		}
		o, err := New(uid, "n1", tt.disk, false)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range Strays(nodes, []*v1alpha1.Member{member(uid, "n2"), member(uid, "n1", o)}) {
			got += s.Host + " " + s.At + " " + s.Path
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
