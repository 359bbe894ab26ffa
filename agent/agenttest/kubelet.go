package agenttest

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"time"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/lvm"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/claim"
	volumeplan "quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/quarry"
)

// node is the node's side of volumes: their devices, what is on them, and where they are mounted. Mounts are kept in a table; only the
// directories below the kubelet's are real.
type node struct {
	session
	mounts *mount.Fake
}

var (
	_ lvm.Devices     = node{}
	_ csi.Filesystems = node{}
	_ lvm.Filesystems = node{}
)

const (
	// mapper is the major number of device-mapper's devices.
	mapper = 253
	// garbage is content that nobody recognises: what a new linear volume shows of the disk below it.
	garbage = "garbage"
)

// device of an active volume, numbered by the order in which the volumes were made.
func (v *volume) device() dm.Device {
	minor := uint32(v.created - firstCreated)
	return dm.Device{Path: fmt.Sprintf("/dev/dm-%d", minor), Major: mapper, Minor: minor, SizeBytes: v.SizeBytes}
}

// behind is the active volume with that device.
func (h *Host) behind(device string) (*volume, error) {
	for _, g := range h.groups {
		for i := range g.volumes {
			if v := &g.volumes[i]; v.Active && v.device().Path == device {
				return v, nil
			}
		}
	}
	return nil, &iofs.PathError{Op: "open", Path: device, Err: iofs.ErrNotExist}
}

// number is what the mount table knows a device by.
func (h *Host) number(device string) (mount.Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, err := h.behind(device)
	if err != nil {
		return mount.Device{}, err
	}
	return mount.Device{Major: mapper, Minor: v.device().Minor}, nil
}

// open says whether something has the volume open: a mount, or whoever OpenVolume stands for.
func (h *Host) open(v volume) bool {
	if v.Open || h.mounts == nil {
		return v.Open
	}
	points, err := h.mounts.Points()
	for _, p := range points {
		if p.Device == (mount.Device{Major: mapper, Minor: v.device().Minor}) {
			return true
		}
	}
	return err != nil
}

// Find finds the device of an active volume.
func (n node) Find(group, name string) (dm.Device, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.groups[group]; g != nil {
		if v := g.volume(name); v != nil && v.Active {
			return v.device(), nil
		}
	}
	return dm.Device{}, fmt.Errorf("%s/%s: %w", group, name, dm.ErrNotFound)
}

// Probe tells what is on a device.
func (n node) Probe(_ context.Context, device string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.behind(device)
	switch {
	case err != nil:
		return "", err
	case v.content == garbage:
		return "", fs.ErrUnknownData
	}
	return v.content, nil
}

// Describe tells what is on a device, and what is recorded in a filesystem.
func (n node) Describe(_ context.Context, device string) (fs.Content, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.behind(device)
	switch {
	case err != nil:
		return fs.Content{}, err
	case v.content == garbage:
		return fs.Content{Unknown: true}, nil
	case v.content == "":
		return fs.Content{}, nil
	}
	return fs.Content{Type: v.content, UUID: v.uuid, MadeUnix: v.made}, nil
}

// FormatVolume puts a filesystem on a volume that somebody makes now, by hand.
func (h *Host) FormatVolume(group, name, fsType string) {
	h.onVolume(group, name, func(v *volume) { v.content, v.uuid, v.made = fsType, "by-hand", h.tick() })
}

// Clear empties a device.
func (n node) Clear(ctx context.Context, device string) error {
	return n.onDevice(ctx, device, func(v *volume) error {
		v.content, v.files, v.uuid, v.made = "", 0, "", 0
		return nil
	})
}

// Format refuses a device that is not empty.
func (n node) Format(ctx context.Context, device string, m fs.Make) error {
	return n.onDevice(ctx, device, func(v *volume) error {
		if v.content != "" {
			return fs.ErrNotEmpty
		}
		v.content, v.files, v.uuid, v.made = m.Type, v.SizeBytes, m.UUID, n.tick()
		return nil
	})
}

// Own gives a btrfs its own UUID.
func (n node) Own(ctx context.Context, device, fsType, uuid string) error {
	n.mu.Lock()
	v, err := n.behind(device)
	same := err == nil && v.uuid == uuid
	n.mu.Unlock()
	if err != nil || same || fsType != fs.Btrfs {
		return err
	}
	return n.onDevice(ctx, device, func(v *volume) error {
		v.uuid = uuid
		return nil
	})
}

// Check finds nothing wrong, and changes nothing. Like the program, it refuses a device that is mounted.
func (n node) Check(_ context.Context, device, _ string, _ func(string)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.behind(device)
	if err == nil && n.open(*v) {
		return fmt.Errorf("check %s: %w", device, fs.ErrBusy)
	}
	return err
}

// DiscardOption is that of ext4 and XFS.
func (n node) DiscardOption(string) string { return "discard" }

// Grow makes a filesystem as large as its device.
func (n node) Grow(ctx context.Context, device, _ string) error {
	return n.onDevice(ctx, device, func(v *volume) error {
		v.files = v.SizeBytes
		return nil
	})
}

// Usage measures a filesystem, on which nothing ever is.
func (n node) Usage(path string) (fs.Usage, error) {
	points, err := n.mounts.Points()
	if err != nil {
		return fs.Usage{}, err
	}
	p, _ := mount.Top(points, path)
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.behind(fmt.Sprintf("/dev/dm-%d", p.Device.Minor))
	if err != nil {
		return fs.Usage{}, fs.ErrUnsupported
	}
	return fs.Usage{TotalBytes: v.files, FreeBytes: v.files, TotalInodes: 100, FreeInodes: 100}, nil
}

func (n node) onDevice(ctx context.Context, device string, do func(*volume) error) error {
	return n.change(ctx, func() error {
		v, err := n.behind(device)
		if err != nil {
			return err
		}
		return do(v)
	})
}

// socketTimeout bounds the wait for the sockets of the kubelet.
const socketTimeout = 10 * time.Second

// serveKubelet serves CSI for the life of the agent, and returns once the kubelet could call. done gets how it ended.
func (a *Agent) serveKubelet(ctx context.Context, s session, volumes lvm.Volumes) (done chan error, err error) {
	a.Host.mu.Lock()
	n := node{session: s, mounts: a.mounts}
	a.Host.mu.Unlock()
	driver := csi.New(csi.Config{
		NodeName: a.opts.NodeName, Version: a.opts.Version, KubeletDir: a.opts.KubeletDir, Log: a.opts.Log,
		Source:      lvm.New(lvm.Config{NodeName: a.opts.NodeName, Volumes: volumes, Devices: n, Filesystems: n}),
		Filesystems: n, Mounter: n.mounts, Places: n.mounts,
	})
	done = make(chan error, 1)
	go func() { done <- driver.Run(ctx) }()
	for deadline := time.Now().Add(socketTimeout); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(driver.Endpoint()); err == nil {
			return done, nil
		}
		select {
		case err := <-done:
			return nil, err
		default:
		}
		if time.Now().After(deadline) {
			return nil, errors.New("the CSI services do not listen")
		}
	}
}

// KubeletSocket is where the agent serves CSI's node service.
func (a *Agent) KubeletSocket() string {
	return csi.Endpoint(a.opts.KubeletDir, quarry.DriverLVM)
}

// activatePool passes over a pool that is not ours, and finds out whether its metadata is damaged.
func (s session) activatePool(ctx context.Context, step volumeplan.ActivatePool) error {
	return s.lenient(ctx, "lvchange", step.Group, func(g *group) error {
		if step.Holds {
			s.commands++ // LVM says where the metadata begins.
		}
		p := g.pool(step.Name)
		switch {
		case p == nil || !p.ours || step.Tag != plan.TagPool:
		case s.lost(g, p.on):
			return errors.New("refusing activation of a partial pool")
		case p.damaged:
			p.damage = "its first block is zero"
			return fmt.Errorf("%w: %s", plan.ErrDamaged, p.damage)
		default:
			p.active, p.damage = true, ""
		}
		return nil
	})
}

// performOnOwnership performs steps on whose a group is.
func (s session) performOnOwnership(ctx context.Context, step plan.Step) error {
	switch st := step.(type) {
	case claim.StampVG:
		return s.setSystemID(ctx, st.Name, "", st.GroupDevices)
	case claim.ImportVG:
		return s.setSystemID(ctx, st.Name, st.From, st.GroupDevices)
	case claim.TakeOverVG:
		return s.giveGroup(ctx, st)
	case claim.StopAutoactivation:
		return s.stopAutoactivation(ctx, st)
	}
	return s.performOnOSD(ctx, step)
}

// SetPoolHealth says what is wrong with a thin pool; nothing when it is empty.
func (h *Host) SetPoolHealth(groupName, name, health string) {
	h.onPool(groupName, name, func(p *pool) { p.health = health })
}

// DamagePool deactivates a group and spoils the beginning of its thin pools' metadata.
func (h *Host) DamagePool(groupName string) {
	h.onGroup(groupName, func(g *group) {
		g.deactivate()
		for i := range g.pools {
			g.pools[i].damaged = true
		}
	})
}
