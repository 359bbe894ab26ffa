package ceph_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
)

func TestSanity(t *testing.T) {
	s := newSuite(t)
	frametest.Sanity{
		Parameters: map[string]string{v1alpha1.ParameterCluster: owner}, IDs: &ids{}, Size: gib, Larger: 2 * gib, Node: "node-1", Least: 40,
		NotRun: map[string]string{
			"already existing name and different source volume ID": "Ceph keeps snapshots with their volumes: the handles of two of one name differ, and only a command for each volume, which a call beside it outdates, would find the name",
		},
	}.Run(t, s.Served)
	if got := s.left(); got != "" {
		t.Errorf("left is %s", got)
	}
}

// ids makes handles in the form of this driver's.
type ids struct{ n atomic.Int64 }

// GenerateUniqueValidVolumeID makes the handle of a volume that does not exist.
func (g *ids) GenerateUniqueValidVolumeID() string {
	return cephvolume.ID{FSID: owner, Name: cephvolume.Name(fmt.Sprintf("absent-%d", g.n.Add(1)))}.String()
}

// GenerateInvalidVolumeID makes something that is no handle.
func (g *ids) GenerateInvalidVolumeID() string { return "not/a-volume" }

// GenerateUniqueValidNodeID makes the name of a node that does not exist.
func (g *ids) GenerateUniqueValidNodeID() string { return fmt.Sprintf("absent-node-%d", g.n.Add(1)) }

// GenerateInvalidNodeID makes something that is no name of a node.
func (g *ids) GenerateInvalidNodeID() string { return "Not A Node" }
