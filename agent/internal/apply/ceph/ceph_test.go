package ceph

import (
	"context"
	"errors"
	"slices"
	"testing"

	"quarry.storage/quarry/agent/internal/apply"
	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

const (
	cluster = "0d4f0fb1-f7d4-4f0c-9d52-1f5ef2b55d5f"
	tools   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

var policy = plan.Policy{MinSizeBytes: 1 << 30, AllowTypes: []string{"loop"}}

func emptyDisk() plan.Device {
	return plan.Device{
		Path: "/dev/disk/by-id/ata-x", KernelName: "sdb", Major: 8, Minor: 16, Type: "disk", Serial: "S", SizeBytes: 2 << 30, HeadTailZero: true, ContentDigest: "00", Use: plan.Unused,
	}
}

// disk is one disk, and the tool that makes it an OSD.
type disk struct {
	Disks
	Maker
	device plan.Device
	made   []hostceph.Make
	// does is what the tool does to the disk; fails is what it returns.
	does  func(d *plan.Device, m hostceph.Make)
	fails error
	open  bool
}

func (d *disk) Check(_ context.Context, path string, verify apply.Verify) error {
	if path != d.device.Path {
		return errors.New("another path")
	}
	d.open = true
	defer func() { d.open = false }()
	return verify(d.device)
}

func (d *disk) Mkfs(_ context.Context, m hostceph.Make) error {
	if d.open {
		return errors.New("the disk is still open")
	}
	d.made = append(d.made, m)
	if d.does != nil {
		d.does(&d.device, m)
	}
	return d.fails
}

func (d *disk) Find(container string) error {
	if container != tools {
		return errors.New("another container")
	}
	return d.fails
}

// writes puts the labels of an OSD on the disk.
func writes(ready bool) func(d *plan.Device, m hostceph.Make) {
	return func(d *plan.Device, m hostceph.Make) {
		l := osd.Label{UUID: m.UUID, SizeBytes: d.SizeBytes, Description: "main", Ready: ready}
		if ready {
			l.FSID, l.ID = m.FSID, "7"
		}
		d.Labels, d.HeadTailZero = []osd.Found{{Label: l}}, false
		d.Signatures = []plan.Signature{{Type: "ceph_bluestore", UUID: m.UUID}}
	}
}

// headless leaves but the copy of the label.
func headless(d *plan.Device) {
	d.Labels[0].Offset, d.Signatures[0].Offset, d.HeadTailZero = 1<<30, 1<<30, true
}

func step(t *testing.T) plan.Step {
	t.Helper()
	d := emptyDisk()
	uuid, err := osd.UUID(cluster, osd.Disk{Serial: "S", SizeBytes: 2 << 30, Node: "n1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	spec := prep.Spec{Node: "n1", Device: plan.IdentityOf(d), ClusterUID: cluster, Want: osd.Wanted{UUID: uuid, FSID: cluster, ID: 7}, Tools: tools, Fresh: true}
	p, err := prep.Prepare(plan.Snapshot{Devices: []plan.Device{d}}, spec, policy)
	if err != nil || len(p.Steps) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	return p.Steps[0]
}

func TestPerform(t *testing.T) {
	broken := errors.New("broken")
	ready, changed := writes(true), func(d *plan.Device) { d.ContentDigest = "01" }
	for name, tt := range map[string]struct {
		before func(*plan.Device)
		disk   disk
		made   int
		err    error
	}{
		"makes the OSD":                               {nil, disk{does: ready}, 1, nil},
		"refuses a disk that changed meanwhile":       {changed, disk{does: ready}, 0, plan.ErrMismatch},
		"refuses a disk that is in use by now":        {func(d *plan.Device) { d.Use = plan.Used }, disk{does: ready}, 0, plan.ErrNotClean},
		"refuses a disk that carries an OSD by now":   {func(d *plan.Device) { writes(true)(d, hostceph.Make{UUID: cluster}) }, disk{does: ready}, 0, plan.ErrMismatch},
		"returns what the program says":               {nil, disk{fails: broken}, 1, broken},
		"tells of programs that are not there":        {nil, disk{fails: hostceph.ErrNoContainer}, 1, prep.ErrNoTools},
		"tells of another disk in the container":      {nil, disk{fails: hostceph.ErrOtherDevice}, 1, plan.ErrMismatch},
		"believes no OSD whose first label is gone":   {nil, disk{does: func(d *plan.Device, m hostceph.Make) { ready(d, m); headless(d) }}, 1, plan.ErrMismatch},
		"believes no program that made nothing":       {nil, disk{}, 1, plan.ErrMismatch},
		"believes no program that did not end":        {nil, disk{does: writes(false)}, 1, plan.ErrMismatch},
		"believes no program that made another OSD":   {nil, disk{does: func(d *plan.Device, m hostceph.Make) { m.UUID = cluster; ready(d, m) }}, 1, plan.ErrMismatch},
		"fails if the disk is held after it was made": {nil, disk{does: func(d *plan.Device, m hostceph.Make) { ready(d, m); d.Use = plan.Used }}, 1, plan.ErrNotClean},
	} {
		d := tt.disk
		d.device = emptyDisk()
		if tt.before != nil {
			tt.before(&d.device)
		}
		err := Adapter{Tool: &d, Devices: &d}.Perform(t.Context(), step(t))
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || len(d.made) != tt.made {
			t.Errorf("%s: %v, made %d times", name, err, len(d.made))
		}
	}
	d := disk{device: emptyDisk(), does: ready}
	if err := (Adapter{Tool: &d, Devices: &d}).Perform(t.Context(), step(t)); err != nil {
		t.Fatal(err)
	}
	uuid := step(t).(prep.MakeOSD).Want.UUID
	if want := []hostceph.Make{{Container: tools, UUID: uuid, FSID: cluster, ID: 7, Device: "/dev/disk/by-id/ata-x", Number: 0x810}}; !slices.Equal(d.made, want) {
		t.Errorf("%+v", d.made)
	}
	for fails, want := range map[error]error{nil: nil, hostceph.ErrNoContainer: prep.ErrNoTools} {
		d := disk{device: emptyDisk(), fails: fails}
		if err := (Adapter{Tool: &d, Devices: &d}).Perform(t.Context(), prep.FindTools{Tools: tools}); !errors.Is(err, want) || len(d.made) > 0 {
			t.Errorf("the programs are looked for: %v, want %v", err, want)
		}
	}
	if err := (Adapter{Tool: &d, Devices: &d}).Perform(t.Context(), plan.RemoveVG{Name: "vg"}); !errors.Is(err, apply.ErrUnknown) {
		t.Errorf("a step of another tool: %v", err)
	}
}
