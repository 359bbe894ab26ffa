package lvm_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// TestListSnapshots_groupLacksADisk: what the disks that are there say may be of before the snapshot was made. An empty list would say that there is none.
func TestListSnapshots_groupLacksADisk(t *testing.T) {
	s := newSuite(t, false, "node-1")
	a, ctx := s.agents["node-1"], t.Context()
	a.AddDisks(diskBytes, "sdc")
	a.AddGroup(group, owner, "sdb", "sdc")
	before := s.cache.members[0].Spec.Group.UUID
	s.await("the group of two disks", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 1 && g[0].UUID != before })
	s.cache.members[0].Spec.Group.UUID = s.pool.Node("node-1").Groups[0].UUID
	s.addPool("node-1")
	s.thin = true
	of := s.create(s.request("pvc-1", "node-1")).GetVolumeId()
	made, err := s.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: of})
	if err != nil {
		t.Fatal(err)
	}
	snap := made.GetSnapshot().GetSnapshotId()
	if _, err := s.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snap}); err != nil {
		t.Fatal(err)
	}
	list := func(r *csi.ListSnapshotsRequest) error {
		resp, err := s.ListSnapshots(ctx, r)
		if n := len(resp.GetEntries()); n > 0 {
			t.Errorf("%d entries", n)
		}
		return err
	}
	wantCode(t, list(&csi.ListSnapshotsRequest{SnapshotId: snap}), codes.OK)
	a.Unplug("sdc")
	s.await("the disk is missed", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 1 && g[0].Partial })
	wantCode(t, list(&csi.ListSnapshotsRequest{SnapshotId: snap}), codes.Unavailable)
	wantCode(t, list(&csi.ListSnapshotsRequest{SourceVolumeId: of}), codes.Unavailable)
	_, err = s.GetSnapshot(ctx, &csi.GetSnapshotRequest{SnapshotId: snap})
	wantCode(t, err, codes.Unavailable)
}
