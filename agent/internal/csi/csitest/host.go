// Package csitest is a small model of a node for tests of the CSI node service: its volumes, their devices, what is on them and
// where they are mounted. It runs nothing and touches nothing but one directory.
package csitest

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/lvm"
	"quarry.storage/quarry/agent/internal/host/dm"
	hostfs "quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// NodeName is the name of the node.
const NodeName = "node-1"

// Volume is one volume of the model.
type Volume struct {
	// ID is what its tag says.
	ID string
	// New and Removing are as in plan.Volume.
	New, Removing bool
	// Unzeroed and FilesystemOnly are as in plan.Volume.
	Unzeroed, FilesystemOnly bool
	// Stale is true while its device leads to a disk that dropped off; Open while activation cannot change that.
	Stale, Open bool

	Active bool
	Size   int64
	// Content is the filesystem on it, "" for nothing, "garbage" for what nobody recognises.
	Content string
	// Files is the size of the filesystem; Data stands for what a pod wrote.
	Files int64
	Data  string
	// LV is the UUID that LVM gave it.
	LV string
	// GroupUUID and Owner are those of its group.
	GroupUUID, Owner string
	// DeviceGroup is the UUID of the group of the device that has its name; that of its own group when empty.
	DeviceGroup string
	// Thin volumes show zeroes where nobody wrote. Created is when the volume was made.
	Thin    bool
	Created int64
	// UUID of the filesystem, when it was made, and with which options.
	UUID    string
	Made    int64
	Options []string
	minor   uint32
}

// Garbage is content that nobody recognises.
const Garbage = "garbage"

const major = 253

// created is when the volumes of the model were made.
const created = 1_700_000_000

// Host is the model.
type Host struct {
	// Mounter is the model's mount table.
	Mounter *mount.Fake
	// Before, if set, is asked before every effect; its error is returned instead of the effect.
	Before func(effect string) error
	// Checking, if set, is how long a check of a filesystem takes, and what it tells.
	Checking func(tell func(string)) error

	mu      sync.Mutex
	dir     string
	volumes map[string]*Volume
	next    uint32
}

// NewHost makes a node whose kubelet has the directory.
func NewHost(dir string) *Host {
	h := &Host{dir: dir, volumes: map[string]*Volume{}}
	h.Mounter = mount.NewFake(dir, h.number)
	h.Mounter.Fail = func(operation, target string) error { return h.before(operation + " " + filepath.Base(target)) }
	return h
}

// Config is for a driver on this node.
func (h *Host) Config() csi.Config {
	return csi.Config{
		NodeName: NodeName, Version: "test", KubeletDir: h.dir, Log: logr.Discard(),
		Source: h.Source(h, h), Filesystems: h, Mounter: h.Mounter, Places: h.Mounter,
	}
}

// Source is the local volumes of this node, on devices and with filesystems of the model or of others.
func (h *Host) Source(devices lvm.Devices, filesystems lvm.Filesystems) csi.Source {
	return lvm.New(lvm.Config{NodeName: NodeName, Volumes: h, Devices: devices, Filesystems: filesystems})
}

// ID is the id of a volume in the group "vg" of this node.
func ID(coName string) volumeid.ID {
	return volumeid.ID{Node: NodeName, Group: "vg", Name: volumeid.Name(coName)}
}

// Add makes a volume as the agent does: active, with its tag, new. What was on the disk before shows on it.
func (h *Host) Add(id volumeid.ID, size int64) *Volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.volumes[key(id.Group, id.Name)]; v != nil {
		return v
	}
	h.next++
	v := &Volume{ID: id.String(), New: true, Active: true, Size: size, Content: Garbage, LV: "lv-" + id.Name, Created: created, minor: h.next}
	h.volumes[key(id.Group, id.Name)] = v
	return v
}

// Remove removes a volume.
func (h *Host) Remove(id volumeid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.volumes, key(id.Group, id.Name))
}

// Restart takes all mounts and devices away, as a restart of the node does.
func (h *Host) Restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.volumes {
		v.Active = false
	}
	before := h.Mounter.Fail
	h.Mounter = mount.NewFake(h.dir, h.number)
	h.Mounter.Fail = before
}

func (h *Host) before(effect string) error {
	if h.Before == nil {
		return nil
	}
	return h.Before(effect)
}

// LookupVolume finds a volume.
func (h *Host) LookupVolume(_ context.Context, want volume.Spec) (plan.Volume, error) {
	group, name := want.Group, want.Name
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.volumes[key(group, name)]
	if v == nil {
		return plan.Volume{}, fmt.Errorf("%s/%s: %w", group, name, plan.ErrNotFound)
	}
	if want.GroupUUID != "" && want.GroupUUID != v.GroupUUID || want.OwnerUID != "" && want.OwnerUID != v.Owner {
		return plan.Volume{}, fmt.Errorf("%s/%s: %w", group, name, plan.ErrOtherGroup)
	}
	return v.recorded(name), nil
}

func (v *Volume) recorded(name string) plan.Volume {
	seen := plan.Volume{Name: name, ID: v.ID, UUID: v.LV, New: v.New, Active: v.Active, SizeBytes: v.Size, CreatedUnix: v.Created}
	seen.Unzeroed, seen.FilesystemOnly, seen.Stale, seen.Removing = v.Unzeroed, v.FilesystemOnly, v.Stale, v.Removing
	if v.Thin {
		seen.Pool = "thin"
	}
	return seen
}

// ActivateVolume makes the device of a volume.
func (h *Host) ActivateVolume(_ context.Context, want volume.Spec) (plan.Volume, error) {
	return h.change("activate", want, func(v *Volume) { v.Active, v.Stale = true, v.Stale && v.Open })
}

// SettleVolume makes a volume one that was used.
func (h *Host) SettleVolume(_ context.Context, want volume.Spec) (plan.Volume, error) {
	return h.change("settle", want, func(v *Volume) { v.New = false })
}

func (h *Host) change(effect string, want volume.Spec, do func(*Volume)) (plan.Volume, error) {
	group, name := want.Group, want.Name
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.before(effect); err != nil {
		return plan.Volume{}, err
	}
	v := h.volumes[key(group, name)]
	if v == nil {
		return plan.Volume{}, fmt.Errorf("%s/%s: %w", group, name, plan.ErrNotFound)
	}
	if want.GroupUUID != "" && want.GroupUUID != v.GroupUUID || want.OwnerUID != "" && want.OwnerUID != v.Owner {
		return plan.Volume{}, fmt.Errorf("%s/%s: %w", group, name, plan.ErrOtherGroup)
	}
	do(v)
	return v.recorded(name), nil
}

// Find finds the device of an active volume.
func (h *Host) Find(group, name string) (dm.Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.volumes[key(group, name)]
	if v == nil || !v.Active {
		return dm.Device{}, fmt.Errorf("%s/%s: %w", group, name, dm.ErrNotFound)
	}
	return dm.Device{Path: v.path(), Major: major, Minor: v.minor, SizeBytes: v.Size, UUID: "LVM-" + strings.ReplaceAll(cmp.Or(v.DeviceGroup, v.GroupUUID), "-", "")}, nil
}

func (v *Volume) path() string { return fmt.Sprintf("/dev/dm-%d", v.minor) }

// at is the volume with the device.
func (h *Host) at(device string) (*Volume, error) {
	for _, v := range h.volumes {
		if v.path() == device && v.Active {
			return v, nil
		}
	}
	return nil, &fs.PathError{Op: "open", Path: device, Err: fs.ErrNotExist}
}

func (h *Host) number(device string) (mount.Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, err := h.at(device)
	if err != nil {
		return mount.Device{}, err
	}
	return mount.Device{Major: major, Minor: v.minor}, nil
}

func key(group, name string) string { return group + "/" + name }

var _ csi.Filesystems = (*Host)(nil)

// Probe tells what is on a device.
func (h *Host) Probe(_ context.Context, device string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, err := h.at(device)
	if err != nil {
		return "", err
	}
	if v.Content == Garbage {
		return "", hostfs.ErrUnknownData
	}
	return v.Content, nil
}
