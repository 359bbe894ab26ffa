package agents

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
)

// TestPool_groupsOfOneName: what a call returns of a group leaves another group of that name in the report, and so does the removal of one.
func TestPool_groupsOfOneName(t *testing.T) {
	p := New(t.Context(), Config{})
	l := newLink(p, "n1")
	p.links = map[string]*link{"n1": l}
	uuids := func(want ...string) {
		t.Helper()
		var got []string
		for _, g := range l.node().Groups {
			got = append(got, g.UUID)
		}
		if len(got) != len(want) {
			t.Fatalf("groups %q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("groups %q, want %q", got, want)
			}
		}
	}
	p.mergeGroup("n1", decide.Group{Name: "g", UUID: "u1", OwnerUID: owner, FreeBytes: 10})
	p.mergeGroup("n1", decide.Group{Name: "g", UUID: "u2", OwnerUID: owner, FreeBytes: 10})
	uuids("u1", "u2")
	p.mergeGroup("n1", decide.Group{Name: "g", UUID: "u1", OwnerUID: owner, FreeBytes: 5})
	uuids("u2", "u1")
	p.editGroup("n1", decide.GroupRef{Name: "g", UUID: "u2"}, func(g *decide.Group) { addVolume(g, decide.Volume{Name: "v"}) })
	for _, g := range l.node().Groups {
		if has := len(g.Volumes) > 0; has != (g.UUID == "u2") {
			t.Errorf("group %s has volumes %q", g.UUID, g.Volumes)
		}
	}
}

// TestPool_meansAGroup: a call for a group with another UUID is refused by the agent, and the volume that one makes tells the UUID of its group,
// whatever the report says.
func TestPool_meansAGroup(t *testing.T) {
	_, p := connected(t)
	d := p.Node("n1").Devices
	if err := p.EnsureVolumeGroup(t.Context(), "n1", decide.GroupRef{Name: "g", Owner: owner}, d[:1]); err != nil {
		t.Fatal(err)
	}
	uuid := p.Node("n1").GroupsOf(owner)[0].UUID
	other := decide.GroupRef{Name: "g", Owner: owner, UUID: "another"}
	v := decide.VolumeSpec{Group: "g", Owner: owner, GroupUUID: "another", Name: "v1", ID: "n1/g/v1", SizeBytes: 4 << 20}
	_, created := p.CreateVolume(t.Context(), "n1", v)
	_, pool := p.EnsureThinPool(t.Context(), "n1", decide.ThinPoolSpec{Group: "g", Owner: owner, UUID: "another", Name: "p", SizeBytes: 8 << 20})
	_, resized := p.ResizeVolume(t.Context(), "n1", v)
	for call, err := range map[string]error{
		"ensure": p.EnsureVolumeGroup(t.Context(), "n1", other, d), "reduce": p.ReduceVolumeGroup(t.Context(), "n1", other, d[:1]),
		"forget": p.ForgetMissingDevice(t.Context(), "n1", other, []string{"pv"}, nil), "move": p.MoveExtents(t.Context(), "n1", other, d[0], nil),
		"remove": p.RemoveVolumeGroup(t.Context(), "n1", other, nil), "repair": p.RepairThinPool(t.Context(), "n1", other, "p", "v1:d"),
		"create": created, "delete": p.DeleteVolume(t.Context(), "n1", v), "resize": resized, "pool": pool,
	} {
		if kind(err) != decide.FaultPrecondition {
			t.Errorf("%s: %v", call, err)
		}
	}
	v.GroupUUID = ""
	p.merge("n1", func(n *decide.Node) { n.Groups = []decide.Group{{Name: "g", UUID: "stale", OwnerUID: owner}} })
	if made, err := p.CreateVolume(t.Context(), "n1", v); err != nil || made.GroupUUID != uuid {
		t.Errorf("%+v, %v; its group is %s", made, err, uuid)
	}
}
