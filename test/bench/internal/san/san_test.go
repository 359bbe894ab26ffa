package san

import (
	"strings"
	"testing"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/agenttest/iscsi"
	"quarry.storage/quarry/agent/agenttest/sharedgroup"
)

const (
	mib    = 1 << 20
	iqn    = "iqn.2026-01.storage.quarry.test:bench"
	portal = "10.0.0.1:3260"
)

// site is a target with two LUNs, of which the group's is the first, and a client of the one agent.
type site struct {
	*Client
	lun  *iscsi.Lun
	disk *sharedgroup.LUN
	node *iscsi.Node
}

func newSite(t *testing.T) site {
	t.Helper()
	fabric, model := iscsi.New(), sharedgroup.NewSAN()
	target := fabric.AddTarget(iqn, portal)
	s := site{lun: target.AddLun(0, 512*mib), disk: model.AddLUN("bench", 512*mib), node: fabric.AddNode("n1", agenttest.BootIDOf("n1"))}
	// Sessions and groups are two models, and one LUN.
	s.lun.Swap(s.disk.Identity())
	s.disk.Reserve(nodeKey)
	target.AddLun(1, 512*mib)
	agent := agenttest.New(t, agenttest.Options{NodeName: "n1", Luns: s.node, SharedGroups: model.AddNode(t, nodeKey)})
	s.Client = New(Config{
		Conn: agent.Dial(t), Node: "n1", OwnerUID: "5e0bd1a4-0000-4000-8000-00000000be4c",
		Target: Target{IQN: iqn, Portals: []string{portal}, Luns: 2},
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s site) begin(t *testing.T) {
	t.Helper()
	must(t, s.Login(t.Context()))
	must(t, s.Register(t.Context()))
	must(t, s.MakeGroup(t.Context()))
}

// left wants that nothing of the client is on the target and on the node.
func (s site) left(t *testing.T) {
	t.Helper()
	if g := s.disk.Group(); g != nil {
		t.Errorf("the group is left: %+v", g)
	}
	if r := s.node.Records(); len(r) > 0 {
		t.Errorf("records are left: %v", r)
	}
}

func TestClient_life(t *testing.T) {
	s := newSite(t)
	s.begin(t)
	if d := s.Devices(); len(d) != 2 || !strings.HasPrefix(d[0], "/dev/") || d[0] == d[1] {
		t.Errorf("devices %q", d)
	}
	for range 2 {
		must(t, s.Create(t.Context(), "alone", 64*mib))
		m, err := s.CreateMapped(t.Context(), "mapped", 64*mib)
		must(t, err)
		if m.GetDevice() == "" || len(m.GetRanges()) != 1 || m.GetRanges()[0].GetSizeBytes() != 64*mib {
			t.Errorf("mapped: %v", m)
		}
		if v := s.disk.Group().Volume("mapped"); v == nil || v.HeldBy != "n1" || v.ReadyBytes != 64*mib {
			t.Errorf("on the LUN: %+v", v)
		}
		must(t, s.RemoveMapped(t.Context(), "mapped"))
		must(t, s.Remove(t.Context(), "alone"))
		if n := len(s.disk.Group().Volumes); n > 0 {
			t.Errorf("%d volumes are left", n)
		}
	}
	must(t, s.Leave(t.Context()))
	s.left(t)
}

// TestClient_leaveAfterAFailure: what a measurement left that failed goes, too.
func TestClient_leaveAfterAFailure(t *testing.T) {
	s := newSite(t)
	s.begin(t)
	must(t, s.Create(t.Context(), "alone", 64*mib))
	_, err := s.CreateMapped(t.Context(), "mapped", 64*mib)
	must(t, err)
	if err := s.Create(t.Context(), "large", 1<<40); err == nil {
		t.Error("a volume is larger than its LUN")
	}
	if err := s.Remove(t.Context(), "absent"); err == nil {
		t.Error("an absent volume was removed")
	}
	must(t, s.Leave(t.Context()))
	s.left(t)
}

// TestClient_leaveEarly: a client that came no further than its sessions leaves them.
func TestClient_leaveEarly(t *testing.T) {
	s := newSite(t)
	must(t, s.Login(t.Context()))
	must(t, s.Leave(t.Context()))
	s.left(t)
}
