package lvm_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// bound returns the PersistentVolume of a volume, with a claim bound to it for an hour.
func bound(name string, v *csi.Volume) corev1.PersistentVolume {
	out := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	out.Spec.CSI = &corev1.CSIPersistentVolumeSource{
		Driver: v1alpha1.DriverLVM, VolumeHandle: v.GetVolumeId(), VolumeAttributes: v.GetVolumeContext(),
	}
	out.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	out.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: name}
	out.Status.Phase = corev1.VolumeBound
	return out
}

func from(snapshot string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
	}}
}

// TestVolumeLost: somebody removes the logical volume of a bound claim by hand. LVM's archive can bring it back as long as nothing takes
// its place, and a snapshot of it as long as nobody deletes it.
func TestVolumeLost(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	ctx := t.Context()
	lost, kept, goes := s.create(s.request("lost", "node-1")), s.create(s.request("kept", "node-1")), s.create(s.request("goes", "node-1"))
	made, err := s.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: lost.GetVolumeId()})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := made.GetSnapshot().GetSnapshotId()
	s.cache.volumes = []corev1.PersistentVolume{bound("lost", lost), bound("kept", kept)}
	a, name := s.agents["node-1"], volumeid.Name("lost")
	sees := func(want bool) func() bool {
		return func() bool { return slices.Contains(s.pool.Node("node-1").Groups[0].Volumes, name) == want }
	}
	s.await("the volume", sees(true))
	a.RemoveVolume(group, name)
	s.await("the loss", sees(false))

	clone, copied := s.request("clone"), s.request("copied")
	clone.VolumeContentSource = from(snapshot)
	copied.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: kept.GetVolumeId()},
	}}
	create := func(r *csi.CreateVolumeRequest) func() error {
		return func() error { _, err := s.CreateVolume(ctx, r); return err }
	}
	calls := map[string]struct {
		call func() error
		want codes.Code
	}{
		"CreateVolume":              {create(s.request("new", "node-1")), codes.ResourceExhausted},
		"CreateVolume, a snapshot":  {create(clone), codes.Unavailable},
		"CreateVolume, another one": {create(copied), codes.Unavailable},
		"CreateSnapshot": {func() error {
			_, err := s.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "next", SourceVolumeId: kept.GetVolumeId()})
			return err
		}, codes.Unavailable},
		"ControllerExpandVolume": {func() error {
			_, err := s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
				VolumeId: kept.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib},
			})
			return err
		}, codes.Unavailable},
		"DeleteSnapshot": {func() error {
			_, err := s.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
			return err
		}, codes.Unavailable},
	}
	before := s.steps()
	for call, c := range calls {
		err := c.call()
		wantCode(t, err, c.want)
		if err == nil || !strings.Contains(err.Error(), "no logical volume exists of lost (claim ns/lost)") {
			t.Errorf("%s does not say which volume is lost: %v", call, err)
		}
	}
	if n := s.steps() - before; n != 0 {
		t.Errorf("%d changes were made", n)
	}
	room := func() int64 {
		r, err := s.GetCapacity(ctx, &csi.GetCapacityRequest{Parameters: s.parameters(), AccessibleTopology: on("node-1")})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetAvailableCapacity()
	}
	if n := room(); n != 0 {
		t.Errorf("the host offers %d bytes", n)
	}

	// What takes no space goes on: a volume that is there stays a volume that was made, other hosts serve, and claims can be deleted.
	if v := s.create(s.request("kept", "node-1")); v.GetVolumeId() != kept.GetVolumeId() {
		t.Errorf("made again as %s", v.GetVolumeId())
	}
	if v := s.create(s.request("new")); !strings.HasPrefix(v.GetVolumeId(), "node-2/") {
		t.Errorf("made as %s", v.GetVolumeId())
	}
	wantCode(t, s.remove(goes.GetVolumeId()), codes.OK)

	// Nothing is taken for granted while the PersistentVolumes are not known.
	deaf := &lvm.Backend{Reader: &deafTo{Reader: s.cache}, Live: s.cache, Agents: s.pool}
	if _, err := deaf.CreateSnapshot(ctx, volumeid.Snapshot("next"), kept.GetVolumeId()); !errors.Is(err, errDeaf) {
		t.Errorf("a snapshot was made: %v", err)
	}
	if err := deaf.DeleteSnapshot(ctx, snapshot); !errors.Is(err, errDeaf) {
		t.Errorf("a snapshot was removed: %v", err)
	}

	// The claim is deleted: nothing needs the volume any more.
	s.cache.volumes[0].Status.Phase = corev1.VolumeReleased
	wantCode(t, s.remove(lost.GetVolumeId()), codes.OK)
	s.await("room", func() bool { return room() > 0 })
	for _, call := range []string{"ControllerExpandVolume", "CreateSnapshot", "CreateVolume, a snapshot", "DeleteSnapshot"} {
		if err := calls[call].call(); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

var errDeaf = errors.New("not synced")

// deafTo is a cache that does not know the PersistentVolumes.
type deafTo struct{ client.Reader }

func (d *deafTo) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*corev1.PersistentVolumeList); ok {
		return errDeaf
	}
	return d.Reader.List(ctx, list, options...)
}

// TestDeleteVolume_groupLacksADisk: what the disks that are there say may be of before the volume was made, so it is not said to be gone. What the group shows
// is deleted.
func TestDeleteVolume_groupLacksADisk(t *testing.T) {
	s := newSuite(t, false, "node-1")
	a := s.agents["node-1"]
	a.AddDisks(diskBytes, "sdc")
	a.AddGroup(group, owner, "sdb", "sdc")
	before := s.cache.members[0].Spec.Group.UUID
	s.await("the group of two disks", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 1 && g[0].UUID != before })
	s.cache.members[0].Spec.Group.UUID = s.pool.Node("node-1").Groups[0].UUID
	shown, gone := s.create(s.request("pvc-1")).GetVolumeId(), s.create(s.request("pvc-2")).GetVolumeId()
	if err := s.remove(gone); err != nil {
		t.Fatal(err)
	}
	a.Unplug("sdc")
	s.await("the disk is missed", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 1 && g[0].Partial })
	ctx := t.Context()
	wantCode(t, s.remove(gone), codes.Unavailable)
	_, err := s.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: gone})
	wantCode(t, err, codes.Unavailable)
	for _, r := range []*csi.ListSnapshotsRequest{{SourceVolumeId: shown}, {SnapshotId: volumeid.ID{Node: "node-1", Group: group, Name: volumeid.Snapshot("x")}.String()}} {
		_, err := s.ListSnapshots(ctx, r)
		wantCode(t, err, codes.Unavailable)
	}
	// Nothing is made, and nothing made larger: the scheduler goes to another node.
	_, err = s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: shown, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}})
	wantCode(t, err, codes.Unavailable)
	_, err = s.CreateVolume(ctx, s.request("pvc-3"))
	wantCode(t, err, codes.ResourceExhausted)
	room, err := s.GetCapacity(ctx, &csi.GetCapacityRequest{Parameters: s.parameters(), AccessibleTopology: on("node-1")})
	if err != nil || room.GetAvailableCapacity() != 0 {
		t.Errorf("capacity: %v, %v", room, err)
	}
	if err := s.remove(shown); err != nil {
		t.Errorf("a volume that the group shows: %v", err)
	}
	a.Plug("sdc")
	s.await("deletion", func() bool { return s.remove(gone) == nil })
}
