package frame_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
)

func TestSanity(t *testing.T) {
	m := frametest.NewBare()
	frametest.Sanity{
		Parameters: map[string]string{"pool": "p"}, IDs: &ids{}, Size: 1 << 30, Larger: 2 << 30,
		Node: m.Node, Topology: map[string]string{frametest.ModelTopology: m.Node}, Least: 50,
	}.Run(t, frametest.Serve(t, frametest.Driver(), frametest.Model{Bare: m}, &frametest.Volumes{}))
	if left := m.Existing(); len(left) > 0 {
		t.Errorf("volumes left: %v", left)
	}
}

// ids makes handles in the form of the model's.
type ids struct{ n atomic.Int64 }

// GenerateUniqueValidVolumeID makes the handle of a volume that does not exist.
func (g *ids) GenerateUniqueValidVolumeID() string {
	return fmt.Sprintf("model/vol-absent-%d", g.n.Add(1))
}

// GenerateInvalidVolumeID makes something that is no handle.
func (g *ids) GenerateInvalidVolumeID() string { return "not-a-volume" }

// GenerateUniqueValidNodeID makes the name of a node that does not exist.
func (g *ids) GenerateUniqueValidNodeID() string { return fmt.Sprintf("absent-node-%d", g.n.Add(1)) }

// GenerateInvalidNodeID makes something that is no name of a node.
func (g *ids) GenerateInvalidNodeID() string { return "Not A Node" }
