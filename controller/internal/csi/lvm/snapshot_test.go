package lvm_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/pkg/volumeid"
)

func TestSnapshot_lifecycle(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	of := s.create(s.request("pvc-1", "node-1")).GetVolumeId()
	s.agents["node-1"].OpenVolume(group, volumeid.Name("pvc-1"))
	before := s.steps()
	made, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: of})
	if err != nil {
		t.Fatal(err)
	}
	snap := made.GetSnapshot()
	if !snap.GetReadyToUse() || snap.GetSourceVolumeId() != of || snap.GetSizeBytes() != gib || s.steps()-before != 1 {
		t.Errorf("snapshot is %v after %d changes", snap, s.steps()-before)
	}
	restore := s.request("pvc-2", "node-2", "node-1")
	restore.CapacityRange.RequiredBytes = 2 * gib
	restore.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snap.GetSnapshotId()},
	}}
	if v := s.create(restore); v.GetCapacityBytes() != 2*gib || v.GetAccessibleTopology()[0].GetSegments()["topology.quarry.storage/host"] != "node-1" {
		t.Errorf("restored volume is %v", v)
	}
	restore.Name, restore.CapacityRange = "pvc-3", &csi.CapacityRange{RequiredBytes: 1, LimitBytes: gib / 2}
	_, err = s.CreateVolume(t.Context(), restore)
	wantCode(t, err, codes.OutOfRange)
	for range 2 {
		_, err = s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snap.GetSnapshotId()})
		wantCode(t, err, codes.OK)
	}
	if v := s.agents["node-1"].Volumes(group); len(v) != 2 {
		t.Errorf("volumes are %+v", v)
	}
}

// TestSnapshot_outlivesItsSource: a snapshot tells which volume it is of after that is gone, and its name is not taken for one of another volume.
func TestSnapshot_outlivesItsSource(t *testing.T) {
	s := newSuite(t, true, "node-1")
	of := s.create(s.request("pvc-1")).GetVolumeId()
	other := s.create(s.request("pvc-2")).GetVolumeId()
	made, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: of})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: of}); err != nil {
		t.Fatal(err)
	}
	listed, err := s.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{SourceVolumeId: of})
	if err != nil || len(listed.GetEntries()) != 1 || listed.GetEntries()[0].GetSnapshot().GetSourceVolumeId() != of {
		t.Errorf("listed %v, %v", listed, err)
	}
	again, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: of})
	if err != nil || again.GetSnapshot().GetSnapshotId() != made.GetSnapshot().GetSnapshotId() {
		t.Errorf("again: %v, %v", again, err)
	}
	_, err = s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: other})
	wantCode(t, err, codes.AlreadyExists)
}

func TestCreateSnapshot_refusals(t *testing.T) {
	linear, thin := newSuite(t, false, "node-1"), newSuite(t, true, "node-1", "node-2")
	ofLinear := linear.create(linear.request("pvc-1")).GetVolumeId()
	first := thin.create(thin.request("pvc-1", "node-1")).GetVolumeId()
	second := thin.create(thin.request("pvc-2", "node-2")).GetVolumeId()
	snap, err := thin.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "taken", SourceVolumeId: first})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s    *suite
		r    *csi.CreateSnapshotRequest
		want codes.Code
	}{
		"of a linear volume":      {linear, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: ofLinear}, codes.FailedPrecondition},
		"without a name":          {thin, &csi.CreateSnapshotRequest{SourceVolumeId: first}, codes.InvalidArgument},
		"of no volume":            {thin, &csi.CreateSnapshotRequest{Name: "snap"}, codes.InvalidArgument},
		"of one that is not ours": {thin, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: "-x/y/z"}, codes.NotFound},
		"of a snapshot":           {thin, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: snap.GetSnapshot().GetSnapshotId()}, codes.NotFound},
		"with a parameter":        {thin, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: first, Parameters: map[string]string{"a": "b"}}, codes.InvalidArgument},
		"of another node's":       {thin, &csi.CreateSnapshotRequest{Name: "taken", SourceVolumeId: second}, codes.AlreadyExists},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.s.steps()
			_, err := c.s.CreateSnapshot(t.Context(), c.r)
			wantCode(t, err, c.want)
			if n := c.s.steps() - before; n != 0 {
				t.Errorf("%d changes were made", n)
			}
		})
	}
}

func TestListSnapshots_filters(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	one, two := s.create(s.request("pvc-1", "node-1")).GetVolumeId(), s.create(s.request("pvc-2", "node-2")).GetVolumeId()
	var handles []string
	for name, of := range map[string]string{"a": one, "b": one, "c": two} {
		r, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: of})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, r.GetSnapshot().GetSnapshotId())
	}
	count := func(r *csi.ListSnapshotsRequest) int {
		t.Helper()
		out, err := s.ListSnapshots(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return len(out.GetEntries())
	}
	for _, c := range []struct {
		r    *csi.ListSnapshotsRequest
		want int
	}{
		{&csi.ListSnapshotsRequest{}, 3},
		{&csi.ListSnapshotsRequest{SourceVolumeId: one}, 2},
		{&csi.ListSnapshotsRequest{SourceVolumeId: two}, 1},
		{&csi.ListSnapshotsRequest{SnapshotId: handles[0]}, 1},
		{&csi.ListSnapshotsRequest{SnapshotId: "none"}, 0},
	} {
		if got := count(c.r); got != c.want {
			t.Errorf("%v: %d snapshots, want %d", c.r, got, c.want)
		}
	}
	s.agents["node-2"].Kill()
	s.await("node-2 down", func() bool { return !s.pool.Node("node-2").Up() })
	_, err := s.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{SourceVolumeId: two})
	wantCode(t, err, codes.Unavailable)
}
