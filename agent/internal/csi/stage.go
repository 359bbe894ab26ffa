package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/mount"
)

// NodeStageVolume makes a volume ready: its device is there, or its tree is mounted at the staging path. On a device that is wanted with
// a filesystem, the filesystem exists and is mounted at the staging path.
func (d *node) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := present("volume_id", req.GetVolumeId(), "staging_target_path", req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	want, err := d.access(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	path, err := d.cfg.Places.Check(req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	ctx, done, err := d.begin(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer done()
	v := Volume{Handle: req.GetVolumeId(), Context: req.GetVolumeContext(), Publish: req.GetPublishContext(), Secrets: req.GetSecrets()}
	if err := d.stage(ctx, v, path, want); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (d *node) stage(ctx context.Context, v Volume, path string, want Access) error {
	from, staged, err := d.staged(ctx, v, path, want)
	if err == nil && staged && d.trees != nil {
		staged, err = d.serves(ctx, v, path)
	}
	if err != nil {
		return err
	}
	if staged {
		return d.grow(ctx, from, path, want)
	}
	if from, err = d.cfg.Source.Ready(ctx, v, want); err != nil {
		return err
	}
	if d.trees != nil {
		if err := d.cfg.Places.MakeDir(path); err != nil {
			return err
		}
		return d.trees.Mount(ctx, v, want, path)
	}
	return d.stageDevice(ctx, v, from, path, want)
}

// staged reports whether the volume is mounted at the path as wanted; something else there is an error. A raw device is never mounted at
// its staging path: whether it is active is asked each time.
func (d *node) staged(ctx context.Context, v Volume, path string, want Access) (From, bool, error) {
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return From{}, false, err
	}
	p, mounted := mount.Top(points, path)
	if !mounted {
		return From{}, false, nil
	}
	from, err := d.cfg.Source.Find(ctx, v)
	switch {
	case err != nil && !errors.Is(err, ErrNotThere):
	case err != nil || !from.Shows(p):
		err = fmt.Errorf("path %s: a mount of something else %w", path, errIncompatible)
	case want.Block:
		err = fmt.Errorf("path %s: a mount of the volume's filesystem %w", path, errIncompatible)
	case d.devices != nil && want.FSType != "" && p.FSType != want.FSType, (want.Frozen || from.ReadOnly) != p.ReadOnly:
		err = fmt.Errorf("path %s: a mount with filesystem %s, read-only %t %w", path, p.FSType, p.ReadOnly, errIncompatible)
	}
	return from, err == nil, err
}

// serves reports whether a staged tree is still served. It takes one away that is not and that no pod uses, as a kubelet leaves it that ended before it unstaged: nobody
// else would. While pods use it, that is an error.
func (d *node) serves(ctx context.Context, v Volume, path string) (bool, error) {
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return false, err
	}
	staged, ok := mount.Top(points, path)
	if !ok {
		return false, nil
	}
	refused := d.trees.Serves(ctx, staged)
	used := slices.ContainsFunc(points, func(p mount.Point) bool { return p.Filesystem == staged.Filesystem && p.Path != path })
	if refused == nil || used {
		return refused == nil, refused
	}
	d.cfg.Log.Info("Unmounting a volume that is not served any more, to mount it anew", "volume", v.Handle, "path", path, "reason", refused.Error())
	if err := d.unmount(ctx, v, path, true); err != nil {
		// An error that is final would have the kubelet forget the mount.
		return false, fmt.Errorf("%w (it cannot be unmounted yet: %s)", refused, err.Error())
	}
	return false, nil
}

// NodeUnstageVolume unmounts a volume from its staging path.
func (d *node) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	ctx, path, done, err := d.beginLeave(ctx, req.GetVolumeId(), "staging_target_path", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer done()
	v := Volume{Handle: req.GetVolumeId()}
	if err := d.unmount(ctx, v, path, true); err != nil {
		return nil, err
	}
	if err := d.cfg.Source.Release(ctx, v); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// beginLeave checks and locks what a volume is to leave.
func (d *node) beginLeave(ctx context.Context, handle, field, target string) (_ context.Context, path string, done func(), err error) {
	if err := present("volume_id", handle, field, target); err != nil {
		return nil, "", nil, err
	}
	if path, err = d.cfg.Places.Check(target); err != nil {
		return nil, "", nil, err
	}
	ctx, done, err = d.begin(ctx, handle)
	return ctx, path, done, err
}

// unmount takes the mounts at a path away, one after the other. A mount that is known to be of something else stays.
func (d *node) unmount(ctx context.Context, v Volume, path string, last bool) error {
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return err
	}
	at := mount.At(points, path)
	if len(at) == 0 {
		return nil
	}
	from, err := d.cfg.Source.Find(ctx, v)
	if err != nil && !errors.Is(err, ErrNotThere) {
		return err
	}
	known := err == nil
	for _, p := range at {
		if known && !from.Shows(p) {
			return fmt.Errorf("path %s: a mount of something else, %s of type %s, is left alone: %w", path, p.Source, p.FSType, ErrPrecondition)
		}
	}
	for i := len(at) - 1; i >= 0; i-- {
		if d.trees != nil {
			err = d.trees.Unmount(ctx, v, at[i], last)
		} else {
			err = d.cfg.Mounter.Unmount(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
