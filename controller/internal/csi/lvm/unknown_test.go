package lvm_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/volumeid"
)

// TestUnknownGroup: LVM cannot report the group of a volume. Whatever is asked about it, the node is to be asked again: nothing is absent,
// made twice, or gone. Another group of the node goes on.
func TestUnknownGroup(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	ctx, a := t.Context(), s.agents["node-1"]
	kept, elsewhere := s.create(s.request("kept", "node-1")), s.create(s.request("elsewhere", "node-2"))
	made, err := s.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: kept.GetVolumeId()})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, volume := made.GetSnapshot().GetSnapshotId(), kept.GetVolumeId()
	clone := s.request("clone", "node-1")
	clone.VolumeContentSource = from(snapshot)
	listed := func() []string {
		t.Helper()
		r, err := s.ListVolumes(ctx, &csi.ListVolumesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range r.GetEntries() {
			out = append(out, e.GetVolume().GetVolumeId())
		}
		return out
	}
	before := listed()
	for name, breaks := range map[string]func(){
		"LVM cannot report it":              func() { a.BreakGroup(group, errors.New("exit status 5")) },
		"LVM cannot report anything":        func() { a.BreakReport(errors.New("exit status 5")) },
		"nobody can tell which group it is": func() { a.DamageGroup(group) },
	} {
		t.Run(name, func(t *testing.T) {
			breaks()
			s.await("the failure", func() bool { return len(s.pool.Node("node-1").Unknown) == 1 })
			steps := s.steps()
			calls := map[string]func() error{
				"create":       func() error { _, err := s.CreateVolume(ctx, s.request("new", "node-1")); return err },
				"create again": func() error { _, err := s.CreateVolume(ctx, s.request("kept")); return err },
				"create, any":  func() error { _, err := s.CreateVolume(ctx, s.request("any")); return err },
				"clone":        func() error { _, err := s.CreateVolume(ctx, clone); return err },
				"delete":       func() error { return s.remove(volume) },
				"delete absent": func() error {
					return s.remove(volumeid.ID{Node: "node-1", Group: group, Name: volumeid.Name("absent")}.String())
				},
				"expand": func() error {
					_, err := s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
						VolumeId: volume, CapacityRange: &csi.CapacityRange{RequiredBytes: 5 * gib},
					})
					return err
				},
				"look": func() error {
					_, err := s.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: volume})
					return err
				},
				"snapshot": func() error {
					_, err := s.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "more", SourceVolumeId: volume})
					return err
				},
				"delete snapshot": func() error {
					_, err := s.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
					return err
				},
				"list one snapshot": func() error {
					_, err := s.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SnapshotId: snapshot})
					return err
				},
				"list snapshots of it": func() error {
					_, err := s.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SourceVolumeId: volume})
					return err
				},
			}
			for what, call := range calls {
				t.Run(what, func(t *testing.T) { wantCode(t, call(), codes.Unavailable) })
			}
			if n := s.steps() - steps; n != 0 {
				t.Errorf("%d changes were made", n)
			}
			room, err := s.GetCapacity(ctx, &csi.GetCapacityRequest{Parameters: s.parameters(), AccessibleTopology: on("node-1")})
			if err != nil || room.GetAvailableCapacity() != 0 {
				t.Errorf("capacity %v, %v", room, err)
			}
			if got := listed(); !slices.Equal(got, before) || !slices.Contains(got, elsewhere.GetVolumeId()) {
				t.Errorf("listed are %v, before %v", got, before)
			}
			a.BreakReport(nil)
			a.BreakGroup(group, nil)
			s.await("it heals", func() bool { return len(s.pool.Node("node-1").Unknown) == 0 })
		})
	}
	if err := s.remove(volume); err != nil {
		t.Errorf("after it healed: %v", err)
	}
}

// TestUnknownGroup_ofAnotherCluster: it stops nobody else.
func TestUnknownGroup_ofAnotherCluster(t *testing.T) {
	s := newSuite(t, false, "node-1")
	a := s.agents["node-1"]
	a.AddDisks(diskBytes, "sdc")
	a.AddGroup("theirs", "another-uid", "sdc")
	a.BreakGroup("theirs", errors.New("exit status 5"))
	s.await("the failure", func() bool { return len(s.pool.Node("node-1").Unknown) == 1 })
	v := s.create(s.request("pvc-1", "node-1"))
	var n decide.Node
	s.await("the volume", func() bool { n = s.pool.Node("node-1"); return len(n.Groups[0].Volumes) == 1 })
	if err := s.remove(v.GetVolumeId()); err != nil {
		t.Errorf("%v, of %+v", err, n)
	}
}
