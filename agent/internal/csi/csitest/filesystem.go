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

// Clear empties a device.
func (h *Host) Clear(_ context.Context, device string) error {
	return h.onDevice("clear", device, func(v *Volume) error {
		v.Content, v.Data, v.Files = "", "", 0
		return nil
	})
}

// Format makes a filesystem on an empty device.
func (h *Host) Format(_ context.Context, device, fsType string) error {
	return h.onDevice("format", device, func(v *Volume) error {
		if v.Content != "" {
			return hostfs.ErrNotEmpty
		}
		v.Content, v.Files = fsType, v.Size
		return nil
	})
}

// Check finds nothing wrong.
func (h *Host) Check(_ context.Context, device, _ string) error {
	return h.onDevice("check", device, func(*Volume) error { return nil })
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
