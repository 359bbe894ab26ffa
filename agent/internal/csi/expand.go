package csi

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/volumeid"
)

// active is the device of a volume that has to be there.
func (d *node) active(id volumeid.ID) (dm.Device, error) {
	device, err := d.cfg.Devices.Find(id.Group, id.Name)
	if errors.Is(err, dm.ErrNotFound) {
		return dm.Device{}, fmt.Errorf("%w: %w", errNotThere, err)
	}
	return device, err
}

// mountedAt finds the mount of the volume at a path. A path where it is not mounted is one where the volume is not found.
func (d *node) mountedAt(device dm.Device, path string) (mount.Point, []mount.Point, error) {
	clean, err := d.cfg.Places.Check(path)
	if err != nil {
		return mount.Point{}, nil, fmt.Errorf("%w: %s", errNotThere, err.Error())
	}
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return mount.Point{}, nil, err
	}
	p, ok := mount.Top(points, clean)
	if !ok || p.Device != number(device) {
		return mount.Point{}, nil, fmt.Errorf("path %.300s: %w", path, errNotThere)
	}
	return p, points, nil
}

// NodeExpandVolume makes the filesystem of a mounted volume as large as its device. For a raw device there is nothing to do.
func (d *node) NodeExpandVolume(ctx context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if err := present("volume_id", req.GetVolumeId(), "volume_path", req.GetVolumePath()); err != nil {
		return nil, err
	}
	id, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	ctx, done, err := d.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	device, err := d.active(id)
	if err != nil {
		return nil, err
	}
	if want := req.GetCapacityRange().GetRequiredBytes(); device.SizeBytes < want {
		return nil, fmt.Errorf("%w: %d bytes, not %d", errRange, device.SizeBytes, want)
	}
	answer := &csi.NodeExpandVolumeResponse{CapacityBytes: device.SizeBytes}
	if req.GetVolumeCapability().GetBlock() != nil {
		// The path may be the staging path, where nothing of a raw device is mounted.
		return answer, nil
	}
	at, points, err := d.mountedAt(device, req.GetVolumePath())
	if err != nil || at.Node {
		return answer, err
	}
	writable, err := writable(points, at)
	if err != nil {
		return nil, err
	}
	return answer, d.cfg.Filesystems.Grow(ctx, device.Path, writable.Path)
}

// writable is a mount of the same filesystem that can be written: growing through a read-only one fails.
func writable(points []mount.Point, at mount.Point) (mount.Point, error) {
	if !at.ReadOnly && !at.Frozen {
		return at, nil
	}
	for _, p := range points {
		if p.Device == at.Device && !p.Node && !p.ReadOnly && !p.Frozen {
			return p, nil
		}
	}
	return mount.Point{}, fmt.Errorf("the filesystem is mounted read-only: %w", errPrecondition)
}
