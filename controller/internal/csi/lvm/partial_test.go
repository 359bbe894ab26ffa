package lvm_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
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

// beside is a node with a second group of the name, as a disk leads to that comes back.
type beside struct {
	*agents.Pool
	group decide.Group
}

func (b beside) Node(name string) decide.Node {
	n := b.Pool.Node(name)
	n.Groups = append(slices.Clone(n.Groups), b.group)
	return n
}

// TestVolume_secondGroupLacksADisk: a volume may be in either of two groups of one name, so it is not said to be absent while one of them lacks a disk.
func TestVolume_secondGroupLacksADisk(t *testing.T) {
	s := newSuite(t, false, "node-1")
	absent := volumeid.ID{Node: "node-1", Group: group, Name: volumeid.Name("absent")}.String()
	for what, want := range map[bool]volume.Kind{true: volume.Unavailable, false: volume.NotFound} {
		second := decide.Group{Name: group, OwnerUID: owner, UUID: "second", Partial: what}
		b := &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: beside{s.pool, second}}
		_, err := b.Volume(t.Context(), absent)
		var refused *volume.Refusal
		if !errors.As(err, &refused) || refused.Kind != want {
			t.Errorf("the second group lacks a disk: %t: %v", what, err)
		}
	}
}

// TestVolume_recordedGroupIsAway: the node has another group of the name than the recorded one, as with another disk in its place. Nothing in the recorded
// one is said to be absent.
func TestVolume_recordedGroupIsAway(t *testing.T) {
	s := newSuite(t, true, "node-1")
	a, ctx := s.agents["node-1"], t.Context()
	kept := s.create(s.request("kept", "node-1")).GetVolumeId()
	made, err := s.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: kept})
	if err != nil {
		t.Fatal(err)
	}
	snap := made.GetSnapshot().GetSnapshotId()
	uuid := s.uuidOn("node-1")
	s.recordIn("pv-1", kept, uuid)
	clone, copied := s.request("clone", "node-1"), s.request("restored", "node-1")
	clone.VolumeContentSource, copied.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: kept},
	}}, from(snap)
	a.Unplug("sdb")
	a.AddDisks(diskBytes, "sdc")
	a.AddGroup(group, owner, "sdc")
	s.await("the other group", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 1 && g[0].UUID != uuid })
	for what, recorded := range map[string][]v1alpha1.Member{
		"a Member has it on record":           {memberOf("node-1", uuid)},
		"only the PersistentVolume has it so": nil,
	} {
		s.cache.members = recorded
		calls := map[string]func() error{
			"get": func() error {
				_, err := s.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: kept})
				return err
			},
			"validate": func() error {
				_, err := s.ValidateVolumeCapabilities(ctx, &csi.ValidateVolumeCapabilitiesRequest{
					VolumeId: kept, VolumeCapabilities: []*csi.VolumeCapability{mounted("ext4")},
				})
				return err
			},
			"expand": func() error {
				_, err := s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: kept, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}})
				return err
			},
			"delete": func() error { return s.remove(kept) },
			"list snapshots of it": func() error {
				_, err := s.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SourceVolumeId: kept})
				return err
			},
		}
		if recorded != nil {
			calls["clone"] = func() error { _, err := s.CreateVolume(ctx, clone); return err }
			calls["get snapshot"] = func() error { _, err := s.GetSnapshot(ctx, &csi.GetSnapshotRequest{SnapshotId: snap}); return err }
			calls["list snapshot"] = func() error { _, err := s.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SnapshotId: snap}); return err }
			calls["restore"] = func() error { _, err := s.CreateVolume(ctx, copied); return err }
			calls["delete snapshot"] = func() error {
				_, err := s.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snap})
				return err
			}
		}
		for name, call := range calls {
			t.Run(what+", "+name, func(t *testing.T) { wantCode(t, call(), codes.Unavailable) })
		}
	}
}
