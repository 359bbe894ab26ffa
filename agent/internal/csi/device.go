package csi

import (
	"cmp"
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/host/fs"
)

// stageDevice makes a device ready: for use as it is, or with a filesystem that is mounted.
func (d *node) stageDevice(ctx context.Context, v Volume, from From, path string, want Access) error {
	made := ""
	if from.New {
		// A call that dies in here finds the volume as new as before.
		var err error
		if made, err = d.devices.FirstUse(ctx, v, from, want); err != nil {
			return err
		}
	}
	switch {
	case want.Block:
		return nil
	case made != "":
		// It was made a moment ago, for all of the device: there is nothing to check, and nothing to grow.
		return d.mountDevice(from, path, made, want)
	}
	have, err := d.usable(ctx, v, from, want)
	if err != nil {
		return err
	}
	if err := d.mountDevice(from, path, have, want); err != nil {
		return err
	}
	return d.grow(ctx, from, path, want)
}

// usable gets the filesystem of a volume that was used before ready for a mount, and returns its type. It makes none: where nothing is on such a
// volume, its data is somewhere else. One that is mounted already, be it at the place of a pod only, is at work: nothing is done to it.
func (d *node) usable(ctx context.Context, v Volume, from From, want Access) (string, error) {
	have, err := d.cfg.Filesystems.Probe(ctx, from.Path)
	switch {
	case err != nil:
		return "", err
	case have == "":
		return "", fmt.Errorf("volume %s was used before, and nothing is on it now: %w. Its data may be somewhere else, as after metadata of LVM was "+
			"restored, so no filesystem is made. docs/troubleshooting.md says what to do", v.Handle, fs.ErrBlank)
	case want.FSType != "" && have != want.FSType, !fs.Supported(have):
		return "", fmt.Errorf("it holds %s, not %s: %w", have, cmp.Or(want.FSType, "a filesystem"), ErrPrecondition)
	}
	mounted, err := d.mounted(from)
	if err != nil || mounted {
		return have, err
	}
	if err := d.cfg.Filesystems.Own(ctx, from.Path, have, from.UUID); err != nil {
		return "", err
	}
	if want.Frozen {
		return have, nil
	}
	return have, d.checks.wait(ctx, v.Handle, d.cfg.CheckPatience, func(ctx context.Context, tell func(string)) error {
		return d.cfg.Filesystems.Check(ctx, from.Path, have, tell)
	})
}

// mounted reports whether the filesystem on the device is mounted anywhere.
func (d *node) mounted(from From) (bool, error) {
	points, err := d.cfg.Mounter.Points()
	for _, p := range points {
		if !p.Node && from.Shows(p) {
			return true, err
		}
	}
	return false, err
}

// mountDevice mounts the filesystem on the device.
func (d *node) mountDevice(from From, path, fsType string, want Access) error {
	if fsType == fs.XFS {
		// A restored snapshot has the UUID of its source, which may be mounted on this node.
		want.Options.AddData("nouuid")
	}
	if from.Thin && !want.Frozen {
		want.Options.AddDefault(d.cfg.Filesystems.DiscardOption(fsType))
	}
	if err := d.cfg.Places.MakeDir(path); err != nil {
		return err
	}
	return d.cfg.Mounter.Mount(from.Path, path, fsType, want.Options)
}

// grow lets the filesystem have all of its device: a copy may be larger than its source, and a volume may have grown while it was
// not in use. A tree has no size of its own.
func (d *node) grow(ctx context.Context, from From, path string, want Access) error {
	if d.devices == nil || want.Frozen {
		return nil
	}
	return d.cfg.Filesystems.Grow(ctx, from.Path, path)
}
