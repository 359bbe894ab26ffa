package csi

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/mount"
)

// NodePublishVolume shows a staged volume at the place where a pod sees it: its tree in a directory, or its device node on a file.
func (d *node) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := present("volume_id", req.GetVolumeId(), "target_path", req.GetTargetPath()); err != nil {
		return nil, err
	}
	want, err := d.access(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if req.GetStagingTargetPath() == "" {
		return nil, fmt.Errorf("staging_target_path is missing: %w", ErrPrecondition)
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
	ctx, done, err := d.begin(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer done()
	p := publication{staging: staging, target: target, want: want, readOnly: want.ReadOnly() || req.GetReadonly()}
	v := Volume{Handle: req.GetVolumeId(), Context: req.GetVolumeContext(), Publish: req.GetPublishContext()}
	if err := d.publish(ctx, v, p); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// publication is one place for a volume.
type publication struct {
	staging, target string
	want            Access
	readOnly        bool
}

func (d *node) publish(ctx context.Context, v Volume, w publication) error {
	from, err := d.cfg.Source.Find(ctx, v)
	if err != nil {
		return err
	}
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return err
	}
	if err := d.ready(ctx, v, points, from, w); err != nil {
		return err
	}
	p, published := mount.Top(points, w.target)
	if published {
		err = fits(p, from, w)
	} else if err = d.mayShow(ctx, v, points, from, w); err == nil {
		err = d.show(from, w)
	}
	if err == nil && w.readOnly && !p.ReadOnly {
		// A call that died between the two mounts left one that can be written.
		return d.cfg.Mounter.Protect(w.target)
	}
	return err
}

// ready refuses a volume that is not staged, and one whose staged tree is not served any more: a kubelet that had the volume staged for an earlier pod does not have it
// staged again.
func (d *node) ready(ctx context.Context, v Volume, points []mount.Point, from From, w publication) error {
	p, ok := mount.Top(points, w.staging)
	switch {
	case w.want.Block:
	case !ok || !from.Shows(p):
		return fmt.Errorf("volume %s is not staged at %s: %w", v.Handle, w.staging, ErrPrecondition)
	case d.trees != nil:
		return d.trees.Serves(ctx, p)
	}
	return nil
}

// fits refuses a mount at the target that is not the wanted one.
func fits(p mount.Point, from From, w publication) error {
	switch {
	case !from.Shows(p) || p.Node != w.want.Block:
		return fmt.Errorf("path %s: a mount of something else %w", p.Path, errIncompatible)
	case p.ReadOnly && !w.readOnly && !from.ReadOnly:
		return fmt.Errorf("path %s: a read-only mount %w", p.Path, errIncompatible)
	}
	return nil
}

// show makes the place and mounts the volume there.
func (d *node) show(from From, w publication) error {
	if w.want.Block {
		if err := d.cfg.Places.MakeFile(w.target); err != nil {
			return err
		}
		return d.cfg.Mounter.BindDevice(from.Path, w.target)
	}
	if err := d.cfg.Places.MakeDir(w.target); err != nil {
		return err
	}
	return d.cfg.Mounter.BindDir(w.staging, w.target)
}

// mayShow refuses a second place for a volume that may have one only, and a device that must not be shown: nothing else tells that a raw
// device was staged. Mounts of single directories of a volume belong to the containers of a pod.
func (d *node) mayShow(ctx context.Context, v Volume, points []mount.Point, from From, w publication) error {
	for _, p := range points {
		if w.want.Alone() && from.Shows(p) && p.Whole && p.Path != w.staging {
			return fmt.Errorf("the volume is published at %s, and may be at one place only: %w", p.Path, ErrPrecondition)
		}
	}
	if d.devices != nil && w.want.Block {
		return d.devices.Showable(ctx, v)
	}
	return nil
}

// NodeUnpublishVolume takes a volume away from a pod, and removes the place that was made for it.
func (d *node) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	ctx, path, done, err := d.beginLeave(ctx, req.GetVolumeId(), "target_path", req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer done()
	if err := d.unmount(ctx, Volume{Handle: req.GetVolumeId()}, path, false); err != nil {
		return nil, err
	}
	if err := d.cfg.Places.Remove(path); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
