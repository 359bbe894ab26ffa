package uml

import (
	"slices"
	"strings"
	"testing"
)

func TestMachine_Args(t *testing.T) {
	m := Machine{
		ID: "lab-n1", Dir: "/state/uml", Memory: 2 << 30,
		Init: "/state/lab", InitArgs: []string{"node", "init", "/state/node.json"},
		Disks: []Disk{{Unit: 0, Image: "/state/system.img"}, {Unit: 2, Image: "/state/data.img"}},
		Taps:  []string{"tap-n1", "mgmt-n1"},
		MACs:  []string{"02:00:00:00:00:01", "02:00:00:00:01:01"},
	}
	args := m.Args()
	for _, want := range []string{
		"umid=lab-n1", "mem=2048M", "ro", "init=/state/lab",
		"ubda=/state/system.img", "ubdc=/state/data.img",
		"vec0:transport=tap,ifname=tap-n1,mac=02:00:00:00:00:01,depth=128,gro=1",
		"vec1:transport=tap,ifname=mgmt-n1,mac=02:00:00:00:01:01,depth=128,gro=1",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("Args() lacks %q: %s", want, strings.Join(args, " "))
		}
	}
	if tail := strings.Join(args[len(args)-4:], " "); tail != "-- node init /state/node.json" {
		t.Errorf("Args() ends in %q, want the arguments of init", tail)
	}
}

func TestFreeUnit(t *testing.T) {
	got, err := FreeUnit([]Disk{{Unit: 0}, {Unit: 1}, {Unit: 3}})
	if err != nil || got != 2 {
		t.Errorf("FreeUnit = %d, %v; want the gap 2", got, err)
	}
	var all []Disk
	for unit := range MaxUnits {
		all = append(all, Disk{Unit: unit})
	}
	if _, err := FreeUnit(all); err == nil {
		t.Error("FreeUnit found a unit when all are taken")
	}
}
