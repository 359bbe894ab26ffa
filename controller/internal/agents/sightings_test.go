package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func disks(serials ...string) []decide.Device {
	var out []decide.Device
	for _, s := range serials {
		out = append(out, decide.Device{Path: "/dev/" + s, WWN: "0x5", Serial: s, SizeBytes: 1 << 30})
	}
	return out
}

func TestSightings(t *testing.T) {
	s := newSightings(func(d decide.Device) bool { return d.Transport == "iscsi" })
	x := disks("x")[0]
	for i, step := range []struct {
		node    string
		devices []decide.Device
		changed []string
		// one and two are what n1 and n2 are told of x.
		one, two string
	}{
		{"n1", disks("x", "a"), nil, "", "n1"},
		{"n2", disks("b"), nil, "", "n1"},
		{"n2", disks("x", "b"), []string{"n1"}, "n2", "n1"},
		{"n2", disks("x", "b"), nil, "n2", "n1"},
		{"n3", disks("x", "x"), nil, "n2", "n1"},
		{"n1", disks("a"), []string{"n2", "n3"}, "n2", "n3"},
		{"n3", nil, []string{"n2"}, "n2", ""},
		{"n2", nil, nil, "", ""},
		{"n1", nil, nil, "", ""},
	} {
		if changed := s.set(step.node, step.devices); !slices.Equal(changed, step.changed) {
			t.Errorf("%d: tells %v, want %v", i, changed, step.changed)
		}
		if one, two := s.other("n1", x), s.other("n2", x); one != step.one || two != step.two {
			t.Errorf("%d: n1 hears of %q and n2 of %q, want %q and %q", i, one, two, step.one, step.two)
		}
	}
	if len(s.nodes)+len(s.disks)+len(s.crowded) != 0 {
		t.Errorf("what is gone is remembered: %+v", s)
	}
	lun := disks("lun")
	lun[0].Transport = "iscsi"
	anonymous := []decide.Device{{Path: "/dev/a", Serial: "S", SizeBytes: 1}, {Path: "/dev/b", WWN: "0x5", SizeBytes: 1}}
	for _, devices := range [][]decide.Device{lun, anonymous} {
		s.set("n1", devices)
		s.set("n2", devices)
		if s.other("n1", devices[0]) != "" || len(s.crowded) != 0 {
			t.Errorf("%+v is refused", devices[0])
		}
	}
}

// twoNodes starts the agents of n1 and n2 and a pool that is connected to the first.
func twoNodes(t *testing.T) (a, b *agenttest.Agent, p *Pool) {
	t.Helper()
	a, p = connected(t)
	b = agenttest.New(t, agenttest.Options{NodeName: "n2", CA: a.CA})
	b.AddDisks(100<<30, "sda")
	return a, b, p
}

func shared(p *Pool, node string) (refused []decide.Device) {
	for _, d := range p.Node(node).Devices {
		if d.RefusedFor(v1alpha1.RefusalSharedDisk) {
			refused = append(refused, d)
		}
	}
	return refused
}

// TestCorpus_wwnOnTwoNodes: a disk that two nodes see is clean on each of them, and refused on both; also when one of them does not answer any
// more. What was decided before the other one saw it is not done.
func TestCorpus_wwnOnTwoNodes(t *testing.T) {
	a, b, p := twoNodes(t)
	lun := agenttest.Disk{Name: "sdz", WWN: "0x600", Serial: "LUN-1"}
	a.AddDisk(lun)
	await(t, "the disk shows", func() bool { return len(p.Node("n1").Devices) == 3 })
	decided := p.Node("n1").Devices
	if len(shared(p, "n1")) != 0 {
		t.Fatal("a disk that one node sees is refused")
	}
	b.AddDisk(lun)
	changes := p.Changes()
	p.SetAddress("n2", b.Addr(), "pod")
	await(t, "both are refused it", func() bool { return len(shared(p, "n1")) == 1 && len(shared(p, "n2")) == 1 })
	told := map[string]bool{}
	await(t, "both nodes are told of", func() bool {
		told[<-changes] = true
		return told["n1"] && told["n2"]
	})
	held := decide.Group{Name: "h", UUID: "uh", OwnerUID: owner, PVs: []decide.PV{{Path: decided[2].Path}}}
	p.merge("n1", func(n *decide.Node) { n.Groups, n.OtherNodes = []decide.Group{held}, []decide.Group{held} })
	refusesWrites(t, p, decided)
	b.Kill()
	await(t, "n2 is away", func() bool { return !p.Node("n2").Up() })
	if len(shared(p, "n1")) != 1 {
		t.Error("nobody knows that the silent node does not see it any more")
	}
	p.Forget("n2")
	if len(shared(p, "n1")) != 0 {
		t.Error("a node that does not exist sees it")
	}
	if err := p.EnsureVolumeGroup(context.Background(), "n1", decide.GroupRef{Name: "g", Owner: owner}, decided[2:]); err != nil {
		t.Error(err)
	}
}

// refusesWrites calls all that writes to the last of some devices of n1, or to the group "h" on it.
func refusesWrites(t *testing.T, p *Pool, decided []decide.Device) {
	t.Helper()
	ctx, d := context.Background(), decided[len(decided)-1]
	_, wiped := p.WipeDevice(ctx, "n1", d)
	_, pooled := p.EnsureThinPool(ctx, "n1", decide.ThinPoolSpec{Group: "h", Owner: owner, Name: "pool", Percent: 10})
	for call, err := range map[string]error{
		"WipeDevice": wiped, "EnsureThinPool": pooled,
		"EnsureVolumeGroup": p.EnsureVolumeGroup(ctx, "n1", decide.GroupRef{Name: "g", Owner: owner}, decided),
		"MoveExtents":       p.MoveExtents(ctx, "n1", decide.GroupRef{Name: "h", Owner: owner}, decided[0], nil),
		"ImportVolumeGroup": p.ImportVolumeGroup(ctx, "n1", "h", owner, "uh", "quarry-n2"),
		"RepairThinPool":    p.RepairThinPool(ctx, "n1", decide.GroupRef{Name: "h", Owner: owner}, "pool", "v1:d"),
	} {
		fault := &decide.Fault{}
		if !errors.As(err, &fault) || fault.Reason != v1alpha1.ReasonSharedDisk || fault.Kind != decide.FaultPrecondition {
			t.Errorf("%s of a disk that two nodes see: %v", call, err)
		}
	}
}

// TestPool_recall: what an earlier process was told of a silent node counts until its agent reports.
func TestPool_recall(t *testing.T) {
	a, b, p := twoNodes(t)
	lun := agenttest.Disk{Name: "sdz", WWN: "0x600", Serial: "LUN-1", SizeBytes: 4 << 30}
	a.AddDisk(lun)
	await(t, "the disk shows", func() bool { return len(p.Node("n1").Devices) == 3 })
	p.Recall("n2", []decide.Device{{Path: "/dev/disk/by-id/x", WWN: "0x600", Serial: "LUN-1", SizeBytes: 4 << 30}})
	p.Recall("n1", nil)
	if len(shared(p, "n1")) != 1 {
		t.Fatal("what the silent node saw is forgotten")
	}
	p.SetAddress("n2", b.Addr(), "pod")
	await(t, "n2 reports that it is gone", func() bool { return len(shared(p, "n1")) == 0 })
}

func BenchmarkSightings(b *testing.B) {
	s := newSightings(nil)
	for i := range 5000 {
		var devices []decide.Device
		for d := range 12 {
			devices = append(devices, disks(fmt.Sprintf("%d-%d", i, d))...)
		}
		s.set(fmt.Sprintf("n%d", i), devices)
	}
	n := decide.Node{Name: "n7", Devices: disks("7-1", "7-2")}
	for b.Loop() {
		s.mark(n)
	}
}
