package csi

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/mount"
)

// NodeExpandVolume makes the filesystem of a mounted volume as large as its device. For a raw device there is nothing to do.
func (d *node) NodeExpandVolume(ctx context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if d.devices == nil {
		return d.UnimplementedNodeServer.NodeExpandVolume(ctx, req)
	}
	if err := present("volume_id", req.GetVolumeId(), "volume_path", req.GetVolumePath()); err != nil {
		return nil, err
	}
	ctx, done, err := d.begin(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer done()
	from, err := d.devices.Find(ctx, Volume{Handle: req.GetVolumeId()})
	if err != nil {
		return nil, err
	}
	if want := req.GetCapacityRange().GetRequiredBytes(); from.SizeBytes < want {
		return nil, fmt.Errorf("%w: %d bytes, not %d", errRange, from.SizeBytes, want)
	}
	resp := &csi.NodeExpandVolumeResponse{CapacityBytes: from.SizeBytes}
	if req.GetVolumeCapability().GetBlock() != nil {
		// The path may be the staging path, where nothing of a raw device is mounted.
		return resp, nil
	}
	at, points, err := d.mountedAt(from, req.GetVolumePath())
	if err != nil || at.Node {
		return resp, err
	}
	writable, err := writable(points, at)
	if err != nil {
		return nil, err
	}
	return resp, d.cfg.Filesystems.Grow(ctx, from.Path, writable.Path)
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
	return mount.Point{}, fmt.Errorf("the filesystem is mounted read-only: %w", ErrPrecondition)
}
