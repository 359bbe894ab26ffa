package nfs_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func TestSanity(t *testing.T) {
	s := newSuite(t)
	frametest.Sanity{
		Parameters: map[string]string{v1alpha1.ParameterNfs: owner}, IDs: &ids{}, Size: gib, Larger: 2 * gib, Node: "node-1", Least: 20,
	}.Run(t, s.Served)
	s.wantShare(0)
}

// ids makes handles in the form of this driver's.
type ids struct{ n atomic.Int64 }

// GenerateUniqueValidVolumeID makes the handle of a volume that does not exist.
func (g *ids) GenerateUniqueValidVolumeID() string {
	return sharedvolume.ID{Owner: owner, Name: sharedvolume.Name(fmt.Sprintf("absent-%d", g.n.Add(1)))}.String()
}

// GenerateInvalidVolumeID makes something that is no handle.
func (g *ids) GenerateInvalidVolumeID() string { return "not/a-volume" }

// GenerateUniqueValidNodeID makes the name of a node that does not exist.
func (g *ids) GenerateUniqueValidNodeID() string { return fmt.Sprintf("absent-node-%d", g.n.Add(1)) }

// GenerateInvalidNodeID makes something that is no name of a node.
func (g *ids) GenerateInvalidNodeID() string { return "Not A Node" }
