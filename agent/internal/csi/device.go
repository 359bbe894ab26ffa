package csi

import (
	"cmp"
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/host/fs"
)

// stageDevice makes a device ready: for use as it is, or with a filesystem that is mounted.
func (d *node) stageDevice(ctx context.Context, v Volume, from From, path string, want Access) error {
	if from.New {
		// A call that dies in here finds the volume as new as before.
		made, err := d.devices.FirstUse(ctx, v, from, want)
		if err != nil {
			return err
		}
		want.FSType = made
	}
	if want.Block {
		return nil
	}
	return d.mountFilesystem(ctx, from, path, want)
}

// mountFilesystem mounts the filesystem on the device, after making one where nothing at all is on it.
func (d *node) mountFilesystem(ctx context.Context, from From, path string, want Access) error {
	have, err := d.cfg.Filesystems.Probe(ctx, from.Path)
	if err != nil {
		return err
	}
	switch {
	case have == "":
		have = cmp.Or(want.FSType, fs.Ext4)
		if err := d.cfg.Filesystems.Format(ctx, from.Path, have); err != nil {
			return err
		}
	case want.FSType != "" && have != want.FSType, !fs.Supported(have):
		return fmt.Errorf("it holds %s, not %s: %w", have, cmp.Or(want.FSType, "a filesystem"), ErrPrecondition)
	case !want.Frozen:
		if err := d.cfg.Filesystems.Check(ctx, from.Path, have); err != nil {
			return err
		}
	}
	if have == fs.XFS {
		// A restored snapshot has the UUID of its source, which may be mounted on this node.
		want.Options.AddData("nouuid")
	}
	if err := d.cfg.Places.MakeDir(path); err != nil {
		return err
	}
	if err := d.cfg.Mounter.Mount(from.Path, path, have, want.Options); err != nil {
		return err
	}
	return d.grow(ctx, from, path, want)
}

// grow lets the filesystem have all of its device: a copy may be larger than its source, and a volume may have grown while it was
// not in use. A tree has no size of its own.
func (d *node) grow(ctx context.Context, from From, path string, want Access) error {
	if d.devices == nil || want.Frozen {
		return nil
	}
	return d.cfg.Filesystems.Grow(ctx, from.Path, path)
}
