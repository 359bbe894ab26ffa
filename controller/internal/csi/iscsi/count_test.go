package iscsi_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/iscsi"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// counting counts the calls to agents. What is waited for counts once: how often it is asked meanwhile depends on how long it takes.
type counting struct {
	iscsi.Nodes
	mu    sync.Mutex
	calls map[string]int
}

func (c *counting) count(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call]++
}

func (c *counting) Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error) {
	c.count("read group")
	return c.Nodes.Contents(ctx, node, ref)
}

func (c *counting) Reservation(ctx context.Context, node string, lun sharedlun.Identity, expected bool) (sharedlun.Reservation, error) {
	c.count("read keys")
	return c.Nodes.Reservation(ctx, node, lun, expected)
}

func (c *counting) Change(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, sequence uint64, change sharedlun.Change) (sharedlun.Group, error) {
	c.count("change")
	return c.Nodes.Change(ctx, node, ref, m, sequence, change)
}

func (c *counting) Promise(ctx context.Context, node string, ref sharedlun.Ref, epoch uint64) (uint64, error) {
	c.count("promise")
	return c.Nodes.Promise(ctx, node, ref, epoch)
}

func (c *counting) Map(ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, sequence uint64) (sharedlun.Mapping, error) {
	c.count("map")
	return c.Nodes.Map(ctx, node, ref, cred, v, sequence)
}

func (c *counting) Unmap(ctx context.Context, node string, ref sharedlun.Ref, uuid string, sequence uint64, fenced bool) error {
	c.count("unmap")
	return c.Nodes.Unmap(ctx, node, ref, uuid, sequence, fenced)
}

func (c *counting) Zero(
	ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool,
) (p sharedlun.Progress, err error) {
	c.count("zero")
	for !p.Done && err == nil {
		p, err = c.Nodes.Zero(ctx, node, ref, cred, v, discard)
	}
	return p, err
}

func (c *counting) Copy(
	ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool, rate int64,
) (p sharedlun.Progress, err error) {
	c.count("copy")
	for !p.Done && err == nil {
		p, err = c.Nodes.Copy(ctx, node, ref, cred, v, discard, rate)
	}
	return p, err
}

func (c *counting) Format(
	ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, fsType string,
) (done bool, err error) {
	c.count("format")
	for !done && err == nil {
		done, err = c.Nodes.Format(ctx, node, ref, cred, v, fsType)
	}
	return done, err
}

// counted is what has happened: calls to agents by their kinds, and what they all have in common.
func (s *suite) counted(c *counting) map[string]int {
	out := maps.Clone(c.calls)
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	out["list members"], out["get lease"], out["write lease"], out["commands of LVM"] = s.fleet.lists, s.leases.loads, s.leases.stores, s.lun.Commands()
	return out
}

// TestCost holds what the calls of a volume's life cost when nothing goes wrong: each read of the group is a command of LVM, each change of it three, and all of
// them wait for each other.
func TestCost(t *testing.T) {
	s := newSuite(t)
	c := &counting{Nodes: s.calls, calls: map[string]int{}}
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/1", c), s.cache)
	// The first one makes the record, and takes the group over.
	s.create("first", 8*mib)
	ext4 := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
	}
	var id, snapshot string
	for _, step := range []struct {
		name string
		do   func() error
		want map[string]int
	}{
		{"CreateVolume", func() error {
			id = s.create("a", 8*mib).GetVolumeId()
			return nil
		}, map[string]int{"read group": 2, "change": 3, "zero": 2, "unmap": 1, "read keys": 1, "commands of LVM": 12, "get lease": 2, "write lease": 4, "list members": 7}},
		{"ControllerPublishVolume, a filesystem for the first time", func() error {
			_, err := s.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n2", VolumeCapability: ext4})
			return err
		}, map[string]int{"read group": 2, "change": 3, "map": 1, "format": 2, "commands of LVM": 15, "get lease": 2, "write lease": 4, "list members": 7}},
		// The attacher mostly calls once more before it sees what it wrote itself.
		{"ControllerPublishVolume, repeated", func() error {
			_, err := s.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n2", VolumeCapability: ext4})
			return err
		}, map[string]int{"map": 1, "commands of LVM": 1, "list members": 1}},
		{"ControllerUnpublishVolume", func() error { return s.unpublish(id, "n2") }, map[string]int{"read group": 1, "change": 2, "unmap": 1, "read keys": 1, "commands of LVM": 7, "get lease": 1, "write lease": 2, "list members": 4}},
		{"ControllerPublishVolume, again", func() error {
			_, err := s.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n3", VolumeCapability: ext4})
			return err
		}, map[string]int{"read group": 1, "change": 1, "map": 1, "commands of LVM": 5, "get lease": 1, "write lease": 2, "list members": 4}},
		{"ControllerUnpublishVolume, again", func() error { return s.unpublish(id, "n3") }, map[string]int{"read group": 1, "change": 2, "unmap": 1, "read keys": 1, "commands of LVM": 7, "get lease": 1, "write lease": 2, "list members": 4}},
		{"CreateSnapshot", func() error {
			r, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
			snapshot = r.GetSnapshot().GetSnapshotId()
			return err
		}, map[string]int{"read group": 2, "change": 5, "copy": 2, "unmap": 1, "read keys": 1, "commands of LVM": 18, "get lease": 2, "write lease": 4, "list members": 7}},
		{"CreateVolume, of a snapshot", func() error {
			_, err := s.CreateVolume(t.Context(), from(s.request("restored", 8*mib), snapshot))
			return err
		}, map[string]int{"read group": 2, "change": 5, "copy": 2, "unmap": 1, "read keys": 1, "commands of LVM": 18, "get lease": 2, "write lease": 4, "list members": 7}},
		{"DeleteSnapshot", func() error {
			_, err := s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
			return err
		}, map[string]int{"read group": 1, "change": 1, "commands of LVM": 4, "get lease": 1, "write lease": 2, "list members": 2}},
		{"DeleteVolume", func() error { return s.remove(id) }, map[string]int{"read group": 1, "change": 1, "commands of LVM": 4, "get lease": 1, "write lease": 2, "list members": 2}},
	} {
		before := s.counted(c)
		if err := step.do(); err != nil {
			t.Fatal(step.name, err)
		}
		got := s.counted(c)
		for what, n := range before {
			if got[what] -= n; got[what] == 0 {
				delete(got, what)
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s costs (-want +got):\n%s", step.name, d)
		}
	}
}

// older are agents that know neither volumes that are held from their beginning, nor those that get ready while they leave.
type older struct{ iscsi.Nodes }

func (o older) Change(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, sequence uint64, change sharedlun.Change) (sharedlun.Group, error) {
	if c := change.Create; c != nil {
		change.Create = &sharedlun.Create{Name: c.Name, SizeBytes: c.SizeBytes, Tags: c.Tags}
	}
	if l := change.Leave; l != nil {
		change.Leave = &sharedlun.Hold{Name: l.Name, UUID: l.UUID, Node: l.Node}
	}
	return o.Nodes.Change(ctx, node, ref, m, sequence, change)
}

// TestCreate_olderAgent: an agent from before makes the same volume, with a change more for each.
func TestCreate_olderAgent(t *testing.T) {
	s := newSuite(t)
	c := &counting{Nodes: older{s.calls}, calls: map[string]int{}}
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/1", c), s.cache)
	s.create("first", 8*mib)
	before := s.counted(c)["change"]
	s.create("a", 8*mib)
	if n := s.counted(c)["change"] - before; n != 5 {
		t.Errorf("%d changes", n)
	}
	volumes := s.lun.Group().Volumes
	for _, v := range volumes {
		if v.HeldBy != "" || v.Leaving || v.Unready() {
			t.Errorf("%+v", v)
		}
	}
	if len(volumes) != 2 {
		t.Errorf("%d volumes", len(volumes))
	}
}

var _ san.Nodes = (*counting)(nil)
