package lvm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
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
				t.Run(what, func(t *testing.T) {
					err := call()
					wantCode(t, err, codes.Unavailable)
					if strings.Contains(err.Error(), "not the one that the Member records") {
						t.Errorf("what cannot be reported is called another group: %v", err)
					}
				})
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

// TestDeadDisk_makesNoSecondVolume: a disk that cannot be read at all makes its group seem absent. A repeated call makes nothing elsewhere, for
// the volume may be in that group, and a copy waits for its source without being sent to another node.
func TestDeadDisk_makesNoSecondVolume(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	ctx, a := t.Context(), s.agents["node-1"]
	kept := s.create(s.request("kept", "node-1"))
	clone := s.request("clone", "node-1")
	clone.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: kept.GetVolumeId()},
	}}
	a.Die("sdb")
	s.await("the group is not seen", func() bool { return len(s.pool.Node("node-1").Groups) == 0 })
	steps := s.steps()
	for what, r := range map[string]*csi.CreateVolumeRequest{"create again": s.request("kept"), "clone": clone} {
		_, err := s.CreateVolume(ctx, r)
		wantCode(t, err, codes.Unavailable)
		if n := s.steps() - steps; n != 0 {
			t.Errorf("%s: %d changes were made", what, n)
		}
	}
	if _, err := s.CreateVolume(ctx, s.request("other", "node-2")); err != nil {
		t.Errorf("on the other node: %v", err)
	}
	a.Revive("sdb")
	s.await("the group is seen", func() bool { return len(s.pool.Node("node-1").Groups) == 1 })
	if got := s.create(s.request("kept")); got.GetVolumeId() != kept.GetVolumeId() {
		t.Errorf("made %s, not %s", got.GetVolumeId(), kept.GetVolumeId())
	}
}

// TestCopy_sourceInMaintenance: the node of the source takes no volumes for a while. The claim keeps that node.
func TestCopy_sourceInMaintenance(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	clone := s.request("clone", "node-1")
	clone.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: s.create(s.request("kept", "node-1")).GetVolumeId()},
	}}
	s.cache.nodes = []v1alpha1.StorageNode{{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: v1alpha1.StorageNodeSpec{Maintenance: true}}}
	_, err := s.CreateVolume(t.Context(), clone)
	wantCode(t, err, codes.Unavailable)
	clone.AccessibilityRequirements = s.request("x", "node-2").GetAccessibilityRequirements()
	_, err = s.CreateVolume(t.Context(), clone)
	wantCode(t, err, codes.ResourceExhausted)
}

// TestInactivePool: after a start of a node nobody knows how full a pool is until it is active. It counts as full.
func TestInactivePool(t *testing.T) {
	s := newSuite(t, true, "node-1")
	a := s.agents["node-1"]
	s.create(s.request("kept", "node-1"))
	room := func() int64 {
		t.Helper()
		r, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: s.parameters(), AccessibleTopology: on("node-1")})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetAvailableCapacity()
	}
	s.await("the report of the volume", func() bool { return s.pool.Node("node-1").Groups[0].Pools[0].VirtualBytes > 0 })
	before := room()
	a.Reboot()
	s.await("its usage is not known", func() bool { return s.pool.Node("node-1").Groups[0].Pools[0].UsageUnknown })
	if n := room(); n != 0 {
		t.Errorf("%d bytes are free", n)
	}
	_, err := s.CreateVolume(t.Context(), s.request("more", "node-1"))
	wantCode(t, err, codes.Unavailable)
	a.Restart(t)
	s.pool.SetAddress("node-1", a.Addr(), "pod-of-node-1-again")
	s.await("its usage is known", func() bool { n := s.pool.Node("node-1"); return n.Up() && !n.Groups[0].Pools[0].UsageUnknown })
	if n := room(); n != before {
		t.Errorf("%d bytes are free, not %d", n, before)
	}
}
