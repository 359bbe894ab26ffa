package agents

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestOtherNodes: a group that an agent says is another node's is kept apart from those of the node.
func TestOtherNodes(t *testing.T) {
	access := agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_OTHER
	l := &link{}
	var n decide.Node
	l.take(&n, &agentv1.WatchVolumeGroupsResponse{Groups: []*agentv1.VolumeGroup{
		{Name: "a", Uuid: "u1"},
		{Name: "b", Uuid: "u2", Access: access, SystemId: "quarry-n2"},
		{Name: "c", Uuid: "u3", Access: agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_NONE},
		{Name: "d", Uuid: "u4", Access: agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_OWN, SystemId: "quarry-n1"},
	}})
	if len(n.Groups) != 3 || len(n.OtherNodes) != 1 || n.OtherNodes[0].SystemID != "quarry-n2" {
		t.Fatalf("groups %+v, of other nodes %+v", n.Groups, n.OtherNodes)
	}
	for i, unstamped := range []bool{false, true, false} {
		if n.Groups[i].Unstamped != unstamped {
			t.Errorf("%+v", n.Groups[i])
		}
	}
}
