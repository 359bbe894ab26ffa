package csi

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/volumeid"
)

// NodePublishVolume shows a staged volume at the place where a pod sees it: its filesystem in a directory, or its device node on
// a file.
func (d *node) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := present("volume_id", req.GetVolumeId(), "target_path", req.GetTargetPath()); err != nil {
		return nil, err
	}
	want, err := capability(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	want.readOnly = want.readOnly || req.GetReadonly()
	if req.GetStagingTargetPath() == "" {
		return nil, fmt.Errorf("staging_target_path is missing: %w", errPrecondition)
	}
	staging, err := d.cfg.Places.Check(req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	target, err := d.cfg.Places.Check(req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	if target == staging {
		return nil, invalid("target path and staging path are the same")
	}
	id, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	_, done, err := d.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := d.publish(id, staging, target, want); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *node) publish(id volumeid.ID, staging, target string, want access) error {
	device, err := d.active(id)
	if err != nil {
		return err
	}
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return err
	}
	if p, ok := mount.Top(points, staging); !want.block && (!ok || p.Device != number(device)) {
		return fmt.Errorf("volume %s is not staged at %s: %w", id, staging, errPrecondition)
	}
	p, published := mount.Top(points, target)
	if published {
		err = fits(p, device, want)
	} else if err = mayShow(points, device, staging, want); err == nil {
		err = d.show(device, staging, target, want.block)
	}
	if err == nil && want.readOnly && !p.ReadOnly {
		// A call that died between the two mounts left one that can be written.
		return d.cfg.Mounter.Protect(target)
	}
	return err
}

// fits refuses a mount at the target that is not the wanted one.
func fits(p mount.Point, device dm.Device, want access) error {
	switch {
	case p.Device != number(device) || p.Node != want.block:
		return fmt.Errorf("path %s: a mount of something else %w", p.Path, errIncompatible)
	case p.ReadOnly && !want.readOnly:
		return fmt.Errorf("path %s: a read-only mount %w", p.Path, errIncompatible)
	}
	return nil
}

// show makes the place and mounts the volume there.
func (d *node) show(device dm.Device, staging, target string, block bool) error {
	if block {
		if err := d.cfg.Places.MakeFile(target); err != nil {
			return err
		}
		return d.cfg.Mounter.BindDevice(device.Path, target)
	}
	if err := d.cfg.Places.MakeDir(target); err != nil {
		return err
	}
	return d.cfg.Mounter.BindDir(staging, target)
}

// mayShow refuses a second place for a volume that may have one only. Mounts of single directories of it belong to the containers
// of a pod.
func mayShow(points []mount.Point, device dm.Device, staging string, want access) error {
	for _, p := range points {
		if want.alone && p.Device == number(device) && p.Whole && p.Path != staging {
			return fmt.Errorf("the volume is published at %s, and may be at one place only: %w", p.Path, errPrecondition)
		}
	}
	return nil
}

// NodeUnpublishVolume takes a volume away from a pod, and removes the place that was made for it.
func (d *node) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := d.leave(ctx, req.GetVolumeId(), "target_path", req.GetTargetPath(), true); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
