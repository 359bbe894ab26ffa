package csitest

import (
	"context"

	hostfs "quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
)

// onDevice does something to the volume behind a device.
func (h *Host) onDevice(effect, device string, do func(*Volume) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.before(effect); err != nil {
		return err
	}
	v, err := h.at(device)
	if err != nil {
		return err
	}
	return do(v)
}

// Describe tells what is on a device, and what is recorded in a filesystem.
func (h *Host) Describe(_ context.Context, device string) (hostfs.Content, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, err := h.at(device)
	switch {
	case err != nil:
		return hostfs.Content{}, err
	case v.Content == Garbage:
		return hostfs.Content{Unknown: true}, nil
	case v.Content == "":
		return hostfs.Content{}, nil
	}
	return hostfs.Content{Type: v.Content, UUID: v.UUID, MadeUnix: v.Made}, nil
}

// Clear empties a device.
func (h *Host) Clear(_ context.Context, device string) error {
	return h.onDevice("clear", device, func(v *Volume) error {
		v.Content, v.Data, v.Files, v.UUID, v.Made = "", "", 0, "", 0
		return nil
	})
}

// Format makes a filesystem on an empty device.
func (h *Host) Format(_ context.Context, device string, m hostfs.Make) error {
	return h.onDevice("format", device, func(v *Volume) error {
		if v.Content != "" {
			return hostfs.ErrNotEmpty
		}
		v.Content, v.Files, v.UUID, v.Made, v.Options = m.Type, v.Size, m.UUID, v.Created+1, m.Options
		return nil
	})
}

// Own gives a btrfs its own UUID.
func (h *Host) Own(_ context.Context, device, fsType, uuid string) error {
	h.mu.Lock()
	v, err := h.at(device)
	same := err == nil && v.UUID == uuid
	h.mu.Unlock()
	if err != nil || same || fsType != hostfs.Btrfs {
		return err
	}
	return h.onDevice("own", device, func(v *Volume) error {
		v.UUID = uuid
		return nil
	})
}

// Check finds nothing wrong, after Checking, if set, has ended. Like the program, it refuses a device that is mounted.
func (h *Host) Check(_ context.Context, device, _ string, tell func(string)) error {
	points, err := h.Mounter.Points()
	if err != nil {
		return err
	}
	err = h.onDevice("check", device, func(v *Volume) error {
		for _, p := range points {
			if p.Device == (mount.Device{Major: major, Minor: v.minor}) {
				return hostfs.ErrBusy
			}
		}
		return nil
	})
	if err == nil && h.Checking != nil {
		err = h.Checking(tell)
	}
	return err
}

// DiscardOption is that of a new kernel.
func (h *Host) DiscardOption(fsType string) string {
	if fsType == hostfs.Btrfs {
		return "discard=async"
	}
	return "discard"
}

// Grow makes a filesystem as large as its device.
func (h *Host) Grow(_ context.Context, device, _ string) error {
	return h.onDevice("grow", device, func(v *Volume) error {
		v.Files = v.Size
		return nil
	})
}

// Usage measures the filesystem that is mounted at a path.
func (h *Host) Usage(path string) (hostfs.Usage, error) {
	points, err := h.Mounter.Points()
	if err != nil {
		return hostfs.Usage{}, err
	}
	p, _ := mount.Top(points, path)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.before("usage"); err != nil {
		return hostfs.Usage{}, err
	}
	for _, v := range h.volumes {
		if v.minor == p.Device.Minor {
			return hostfs.Usage{TotalBytes: v.Files, FreeBytes: v.Files, TotalInodes: 100, FreeInodes: 100}, nil
		}
	}
	return hostfs.Usage{}, hostfs.ErrUnsupported
}
