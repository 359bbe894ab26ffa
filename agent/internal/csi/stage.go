package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/volumeid"
)

// NodeStageVolume makes a volume ready: its device is there, and for a filesystem volume its filesystem exists and is mounted at
// the staging path.
func (d *node) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := present("volume_id", req.GetVolumeId(), "staging_target_path", req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	want, err := capability(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	path, err := d.cfg.Places.Check(req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	id, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if id.IsSnapshot() {
		return nil, invalid("%s is a snapshot: restore it to a volume", id)
	}
	ctx, done, err := d.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := d.stage(ctx, id, path, want); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (d *node) stage(ctx context.Context, id volumeid.ID, path string, want access) error {
	device, staged, err := d.staged(id, path, want)
	if err != nil {
		return err
	}
	if staged {
		return d.grow(ctx, device, path, want)
	}
	v, err := d.cfg.Volumes.LookupVolume(ctx, id.Group, id.Name)
	if err != nil {
		return err
	}
	if v.ID != id.String() {
		return fmt.Errorf("volume %s carries the id %q: %w", id, v.ID, errNotThere)
	}
	if device, err = d.activate(ctx, id); err != nil {
		return err
	}
	if v.New {
		// What the new volume shows is left over from others. A call that dies in here finds the volume as new as before.
		if want.fsType, err = d.firstUse(ctx, id, device, want); err != nil {
			return err
		}
	}
	if want.block {
		return nil
	}
	return d.mountFilesystem(ctx, device, path, want)
}

// staged tells whether the volume is mounted at the path as wanted; something else there is an error. A raw device is never
// mounted at its staging path: whether it is active is asked each time.
func (d *node) staged(id volumeid.ID, path string, want access) (dm.Device, bool, error) {
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return dm.Device{}, false, err
	}
	p, mounted := mount.Top(points, path)
	if !mounted {
		return dm.Device{}, false, nil
	}
	device, err := d.cfg.Devices.Find(id.Group, id.Name)
	switch {
	case err != nil && !errors.Is(err, dm.ErrNotFound):
	case err != nil || p.Device != number(device):
		err = fmt.Errorf("path %s: a mount of something else %w", path, errIncompatible)
	case want.block:
		err = fmt.Errorf("path %s: a mount of the volume's filesystem %w", path, errIncompatible)
	case want.fsType != "" && p.FSType != want.fsType, want.options.ReadOnly != p.ReadOnly:
		err = fmt.Errorf("path %s: a mount with filesystem %s, read-only %t %w", path, p.FSType, p.ReadOnly, errIncompatible)
	}
	return device, err == nil, err
}

// activate makes the device appear, as it has to be after every start of the node.
func (d *node) activate(ctx context.Context, id volumeid.ID) (dm.Device, error) {
	device, err := d.cfg.Devices.Find(id.Group, id.Name)
	if err == nil || errors.Is(err, dm.ErrNotLVM) {
		return device, err
	}
	if _, err := d.cfg.Volumes.ActivateVolume(ctx, id.Group, id.Name); err != nil {
		return dm.Device{}, err
	}
	return d.cfg.Devices.Find(id.Group, id.Name)
}

// firstUse makes a new volume ready for what it is wanted for, and lets it count as used then.
func (d *node) firstUse(ctx context.Context, id volumeid.ID, device dm.Device, want access) (fsType string, err error) {
	if err := d.cfg.Filesystems.Clear(ctx, device.Path); err != nil {
		return "", err
	}
	if !want.block {
		fsType = cmp.Or(want.fsType, fs.Ext4)
		if err := d.cfg.Filesystems.Format(ctx, device.Path, fsType); err != nil {
			return "", err
		}
	}
	_, err = d.cfg.Volumes.SettleVolume(ctx, id.Group, id.Name)
	return fsType, err
}

// mountFilesystem mounts the filesystem on the device, after making one where nothing at all is on it.
func (d *node) mountFilesystem(ctx context.Context, device dm.Device, path string, want access) error {
	have, err := d.cfg.Filesystems.Probe(ctx, device.Path)
	if err != nil {
		return err
	}
	switch {
	case have == "":
		have = cmp.Or(want.fsType, fs.Ext4)
		if err := d.cfg.Filesystems.Format(ctx, device.Path, have); err != nil {
			return err
		}
	case want.fsType != "" && have != want.fsType, !fs.Supported(have):
		return fmt.Errorf("it holds %s, not %s: %w", have, cmp.Or(want.fsType, "a filesystem"), errPrecondition)
	case !want.options.ReadOnly:
		if err := d.cfg.Filesystems.Check(ctx, device.Path, have); err != nil {
			return err
		}
	}
	if have == fs.XFS {
		// A restored snapshot has the UUID of its source, which may be mounted on this node.
		want.options.AddData("nouuid")
	}
	if err := d.cfg.Places.MakeDir(path); err != nil {
		return err
	}
	if err := d.cfg.Mounter.Mount(device.Path, path, have, want.options); err != nil {
		return err
	}
	return d.grow(ctx, device, path, want)
}

// grow lets the filesystem have all of its device: a copy may be larger than its source, and a volume may have grown while it was
// not in use.
func (d *node) grow(ctx context.Context, device dm.Device, path string, want access) error {
	if want.options.ReadOnly {
		return nil
	}
	return d.cfg.Filesystems.Grow(ctx, device.Path, path)
}

// NodeUnstageVolume unmounts a volume from its staging path. The volume stays active: that costs nothing, and the kernel lets
// nobody remove it while it is in use.
func (d *node) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := d.leave(ctx, req.GetVolumeId(), "staging_target_path", req.GetStagingTargetPath(), false); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// leave unmounts everything of a volume from one path, and removes the path if told so.
func (d *node) leave(ctx context.Context, handle, field, target string, remove bool) error {
	if err := present("volume_id", handle, field, target); err != nil {
		return err
	}
	path, err := d.cfg.Places.Check(target)
	if err != nil {
		return err
	}
	id, err := d.volume(handle)
	if err != nil {
		return err
	}
	_, done, err := d.begin(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	if err := d.unmount(id, path); err != nil || !remove {
		return err
	}
	return d.cfg.Places.Remove(path)
}

// unmount takes the mounts at a path away, one after the other. A mount that is known to be of another device stays.
func (d *node) unmount(id volumeid.ID, path string) error {
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return err
	}
	at := mount.At(points, path)
	if len(at) == 0 {
		return nil
	}
	device, err := d.cfg.Devices.Find(id.Group, id.Name)
	if err != nil && !errors.Is(err, dm.ErrNotFound) {
		return err
	}
	known := err == nil
	for _, p := range at {
		if known && p.Device != number(device) {
			return fmt.Errorf("path %s: a mount of another device, %d:%d, is left alone: %w", path, p.Device.Major, p.Device.Minor, errPrecondition)
		}
	}
	for range at {
		if err := d.cfg.Mounter.Unmount(path); err != nil {
			return err
		}
	}
	return nil
}

func number(d dm.Device) mount.Device { return mount.Device{Major: d.Major, Minor: d.Minor} }
