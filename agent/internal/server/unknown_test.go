package server_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestServer_unknownGroup: who follows or lists the groups learns that LVM cannot report one, nothing is decided about that one meanwhile,
// and another one goes on.
func TestServer_unknownGroup(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*agenttest.Agent)
		// says is what the refusal tells, known the number of groups that are reported, others whether the other group goes on.
		says   string
		known  int
		others bool
	}{
		"LVM reports no group": {func(a *agenttest.Agent) { a.BreakReport(errors.New("exit status 5")) }, "exit status 5", 0, false},
		"LVM cannot report it": {func(a *agenttest.Agent) { a.BreakGroup("vg", errors.New("exit status 5")) }, "exit status 5", 1, true},
		"its metadata is gone": {func(a *agenttest.Agent) { a.DamageGroup("vg") }, "whose metadata cannot be read", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.New(t, agenttest.Options{})
			a.AddDisks(0, "sdb", "sdc", "sdd", "sde")
			a.AddGroup("vg", "uid", "sdb")
			a.AddGroup("vg2", "uid-2", "sdc")
			a.AddForeignGroup("theirs", "sde")
			conn := a.Dial(t)
			calls := unknownCalls{t: t, groups: agentv1.NewVolumeGroupServiceClient(conn), volumes: agentv1.NewLogicalVolumeServiceClient(conn), free: identity(t, conn, a.Path("sdd"))}
			if err := calls.create("vg", "uid", "v"); err != nil {
				t.Fatal(err)
			}
			watch, err := calls.groups.WatchVolumeGroups(t.Context(), &agentv1.WatchVolumeGroupsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			until := func(why string, known int) (r *agentv1.WatchVolumeGroupsResponse) {
				t.Helper()
				for r == nil || !strings.Contains(r.GetError(), why) || (r.GetError() == "") != (why == "") || len(r.GetGroups()) != known {
					if r, err = watch.Recv(); err != nil {
						t.Fatal(err)
					}
				}
				return r
			}
			until("", 2)
			c.breaks(a)
			if r := until(c.says, c.known); len(r.GetUnknown()) != 2-c.known {
				t.Errorf("unknown are %v", r.GetUnknown())
			}
			calls.refused(a, c.says)
			if err := calls.create("vg2", "uid-2", "w"); c.others != (err == nil) {
				t.Errorf("the other group: %v", err)
			}
			a.BreakReport(nil)
			a.BreakGroup("vg", nil)
			until("", 2)
			if err := calls.create("vg", "uid", "v"); err != nil {
				t.Errorf("after it healed: %v", err)
			}
		})
	}
}

// TestServer_deadDisk: the only disk of a group cannot be read at all, so the group is not seen. Nobody is told that it, or a volume in it, is
// not there.
func TestServer_deadDisk(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	a.AddDisks(0, "sdb", "sdc", "sdd")
	a.AddGroup("vg", "uid", "sdb")
	a.AddGroup("vg2", "uid-2", "sdc")
	conn := a.Dial(t)
	c := unknownCalls{t: t, volumes: agentv1.NewLogicalVolumeServiceClient(conn)}
	if err := c.create("vg", "uid", "v"); err != nil {
		t.Fatal(err)
	}
	a.Die("sdb")
	for what, call := range map[string]func() error{
		"list": func() error {
			_, err := c.volumes.ListLogicalVolumes(t.Context(), &agentv1.ListLogicalVolumesRequest{Group: "vg"})
			return err
		},
		"create again": func() error { return c.create("vg", "uid", "v") },
		"delete": func() error {
			_, err := c.volumes.DeleteLogicalVolume(t.Context(), &agentv1.DeleteLogicalVolumeRequest{Group: "vg", OwnerUid: "uid", Name: "v", Id: "id-v"})
			return err
		},
		"resize": func() error {
			_, err := c.volumes.ResizeLogicalVolume(t.Context(), &agentv1.ResizeLogicalVolumeRequest{Group: "vg", OwnerUid: "uid", Name: "v", Id: "id-v", SizeBytes: 8 << 20})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.create("vg2", "uid-2", "w"); err != nil {
		t.Errorf("the other group: %v", err)
	}
	a.Revive("sdb")
	if err := c.create("vg", "uid", "v"); err != nil {
		t.Errorf("after it healed: %v", err)
	}
}

type unknownCalls struct {
	t       *testing.T
	groups  agentv1.VolumeGroupServiceClient
	volumes agentv1.LogicalVolumeServiceClient
	free    *agentv1.DeviceIdentity
}

func (c unknownCalls) create(group, owner, name string) error {
	_, err := c.volumes.CreateLogicalVolume(c.t.Context(), &agentv1.CreateLogicalVolumeRequest{
		Group: group, OwnerUid: owner, Name: name, Id: "id-" + name, SizeBytes: 4 << 20,
	})
	return err
}

// refused wants every call on group vg to be refused, without a change.
func (c unknownCalls) refused(a *agenttest.Agent, says string) {
	c.t.Helper()
	ctx, before := c.t.Context(), a.Steps()
	devices := []*agentv1.DeviceIdentity{c.free}
	for what, call := range map[string]func() error{
		"list groups": func() error {
			_, err := c.groups.ListVolumeGroups(ctx, &agentv1.ListVolumeGroupsRequest{})
			return err
		},
		"list volumes": func() error {
			_, err := c.volumes.ListLogicalVolumes(ctx, &agentv1.ListLogicalVolumesRequest{})
			return err
		},
		"list its volumes": func() error {
			_, err := c.volumes.ListLogicalVolumes(ctx, &agentv1.ListLogicalVolumesRequest{Group: "vg"})
			return err
		},
		"ensure": func() error {
			_, err := c.groups.EnsureVolumeGroup(ctx, &agentv1.EnsureVolumeGroupRequest{Name: "vg", OwnerUid: "uid", Devices: devices})
			return err
		},
		"reduce": func() error {
			_, err := c.groups.ReduceVolumeGroup(ctx, &agentv1.ReduceVolumeGroupRequest{Name: "vg", OwnerUid: "uid", Devices: devices})
			return err
		},
		"remove": func() error {
			_, err := c.groups.RemoveVolumeGroup(ctx, &agentv1.RemoveVolumeGroupRequest{Name: "vg", OwnerUid: "uid"})
			return err
		},
		"create":       func() error { return c.create("vg", "uid", "new") },
		"create again": func() error { return c.create("vg", "uid", "v") },
		"delete": func() error {
			_, err := c.volumes.DeleteLogicalVolume(ctx, &agentv1.DeleteLogicalVolumeRequest{Group: "vg", OwnerUid: "uid", Name: "v", Id: "id-v"})
			return err
		},
		"resize": func() error {
			_, err := c.volumes.ResizeLogicalVolume(ctx, &agentv1.ResizeLogicalVolumeRequest{Group: "vg", OwnerUid: "uid", Name: "v", Id: "id-v", SizeBytes: 8 << 20})
			return err
		},
		"pool": func() error {
			_, err := c.volumes.EnsureThinPool(ctx, &agentv1.EnsureThinPoolRequest{Group: "vg", OwnerUid: "uid", Name: "pool", SizeBytes: 1 << 30})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), says) {
			c.t.Errorf("%s: %v", what, err)
		}
	}
	if n := a.Steps() - before; n != 0 {
		c.t.Errorf("%d changes were made", n)
	}
}
