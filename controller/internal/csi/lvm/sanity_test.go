package lvm_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

func TestSanity(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	frametest.Sanity{
		Parameters: s.parameters(), IDs: &ids{}, Size: gib, Larger: 2 * gib,
		Node: "node-1", Topology: map[string]string{v1alpha1.TopologyHost: "node-1"}, Least: 40,
	}.Run(t, s.Served)
	for name, a := range s.agents {
		if left := a.Volumes(group); len(left) > 0 {
			t.Errorf("volumes left on %s: %+v", name, left)
		}
	}
}

// ids makes handles in the form of this driver's.
type ids struct{ n atomic.Int64 }

// GenerateUniqueValidVolumeID makes the handle of a volume that does not exist.
func (g *ids) GenerateUniqueValidVolumeID() string {
	name := volumeid.Name(fmt.Sprintf("sanity-absent-%d", g.n.Add(1)))
	return volumeid.ID{Node: "node-1", Group: group, Name: name}.String()
}

// GenerateInvalidVolumeID makes something that is no handle.
func (g *ids) GenerateInvalidVolumeID() string { return "not/a-volume" }

// GenerateUniqueValidNodeID makes the name of a node that does not exist.
func (g *ids) GenerateUniqueValidNodeID() string { return fmt.Sprintf("absent-node-%d", g.n.Add(1)) }

// GenerateInvalidNodeID makes something that is no name of a node.
func (g *ids) GenerateInvalidNodeID() string { return "Not A Node" }
