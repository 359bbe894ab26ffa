package lvm_test

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/systemid"
)

// TestDeleteVolume_importedGroupLacksADisk: the group is on another node now, and what its disks say there may be of before the volume was made.
func TestDeleteVolume_importedGroupLacksADisk(t *testing.T) {
	s := newSuite(t, false, "node-1")
	one := s.agents["node-1"]
	one.AddDisks(diskBytes, "sdc")
	one.AddGroup(group, owner, "sdb", "sdc")
	before := s.cache.members[0].Spec.Group.UUID
	s.await("two disks", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 1 && g[0].UUID != before })
	uuid := s.uuidOn("node-1")
	s.cache.members[0].Spec.Group.UUID = uuid
	vol := s.create(s.request("pvc-1")).GetVolumeId()
	two := agenttest.New(t, agenttest.Options{NodeName: "node-2", CA: one.CA})
	s.agents["node-2"] = two
	one.Move(two.Host, "sdb", "sdc")
	two.SetSystemID(group, systemid.Of("node-2"))
	one.AddDisks(diskBytes, "sdd")
	one.AddGroup(group, owner, "sdd")
	s.pool.SetAddress("node-2", two.Addr(), "pod-of-node-2")
	s.await("both", func() bool {
		a, b := s.pool.Node("node-1").Groups, s.pool.Node("node-2").Groups
		return len(a) == 1 && a[0].UUID != uuid && len(b) == 1 && b[0].UUID == uuid
	})
	s.cache.members = []v1alpha1.Member{memberOf("node-1", s.uuidOn("node-1")), memberOf("node-2", uuid)}
	s.recordIn("pv-1", vol, uuid)
	if err := s.remove(vol); err != nil { // From here on the disk that is left does not know it.
		t.Fatal(err)
	}
	two.Unplug("sdc")
	s.await("missed", func() bool { g := s.pool.Node("node-2").Groups; return len(g) == 1 && g[0].Partial })
	wantCode(t, s.remove(vol), codes.Unavailable)

	// The PersistentVolume says which group it is, whatever that is called by now.
	b := &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: renaming{s.pool, "node-2"}}
	var refused *volume.Refusal
	if err := b.DeleteVolume(t.Context(), vol); !errors.As(err, &refused) || refused.Kind != volume.Unavailable {
		t.Errorf("of a group that was renamed: %v", err)
	}
}

// renaming is a node on which a person renamed each volume group.
type renaming struct {
	*agents.Pool
	node string
}

func (r renaming) Node(name string) decide.Node {
	n := r.Pool.Node(name)
	if name == r.node {
		n.Groups = slices.Clone(n.Groups)
		for i := range n.Groups {
			n.Groups[i].Name = "renamed"
		}
	}
	return n
}
