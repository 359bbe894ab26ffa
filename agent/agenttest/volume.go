package agenttest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
)

// Volume is a logical volume of the fake host, as tests see it.
type Volume struct {
	Name string
	// ID is empty for a volume without our tag.
	ID        string
	SizeBytes int64
	// Pool is empty for a linear volume.
	Pool, Source string
	Snapshot     bool
	// New is true until the first use, Removing once the removal began.
	New, Removing bool
	// Unzeroed is true until it reads as zero, which it does up to ZeroedBytes.
	Unzeroed    bool
	ZeroedBytes int64
	// FilesystemOnly is true if it must not be shown raw, TailOf the id of the volume that grows by it.
	FilesystemOnly bool
	TailOf         string
	Active, Open   bool
	// Suspended is true until the device is refreshed: a command was killed that changed it.
	Suspended bool
}

// volume is what LVM's metadata and the kernel say.
type volume struct {
	Volume
	on      []extents // empty for a thin one
	of      string    // the source in its tag
	content string    // the filesystem on it; empty for nothing at all
	files   int64     // size of the filesystem
	uuid    string    // of the filesystem
	made    int64     // when the filesystem was made
	health  string
	created int64
	stale   bool // its device leads to a disk that was taken out
}

// pool is a thin pool.
type pool struct {
	name          string
	ours          bool
	active, stale bool
	suspended     bool
	bytes         int64
	meta          int64
	on            []extents
	data, full    int32
	health        string
	damaged       bool   // the metadata is
	ruined        bool   // and no repair finds anything
	spent         bool   // the room that is kept back for a repair
	damage        string // what the agent has found of that
}

// firstCreated is the time at which the first volume of a host is made; each later one comes a second later.
const firstCreated = 1_700_000_000

// AddVolume makes an active logical volume without our tag in a group, as an administrator would.
func (h *Host) AddVolume(groupName, name string, bytes int64) {
	h.AddVolumeOn(groupName, name, "", bytes)
}

// AddVolumeOn is AddVolume on one disk of the group, by its kernel name; on any when that is empty.
func (h *Host) AddVolumeOn(groupName, name, diskName string, bytes int64) {
	h.onGroup(groupName, func(g *group) {
		on, err := h.allocate(g, bytes, diskName)
		if err != nil {
			panic(fmt.Sprintf("agenttest: no room for %q in group %q", name, groupName))
		}
		g.volumes = append(g.volumes, volume{Volume: Volume{Name: name, SizeBytes: roundUp(bytes), Active: true}, on: on, created: h.tick()})
	})
}

// AddForeignPool makes a thin pool without our tag.
func (h *Host) AddForeignPool(groupName, name string, bytes int64) {
	h.onGroup(groupName, func(g *group) {
		on, err := h.allocate(g, bytes)
		if err != nil {
			panic(fmt.Sprintf("agenttest: no room for %q in group %q", name, groupName))
		}
		g.pools = append(g.pools, pool{name: name, active: true, bytes: roundUp(bytes), on: on})
	})
}

// RemoveVolume removes a logical volume, as an administrator would.
func (h *Host) RemoveVolume(groupName, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.groups[groupName]; g != nil {
		g.volumes = slices.DeleteFunc(g.volumes, func(v volume) bool { return v.Name == name })
	}
	h.changed()
}

// Volumes are the volumes of a group, ordered by name; none when there is no such group.
func (h *Host) Volumes(groupName string) []Volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Volume
	if g := h.groups[groupName]; g != nil {
		for _, v := range g.volumes {
			out = append(out, v.Volume)
		}
	}
	slices.SortFunc(out, func(a, b Volume) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// OpenVolume lets something have the volume open, as a mount does; it is activated first.
func (h *Host) OpenVolume(groupName, name string) {
	h.onVolume(groupName, name, func(v *volume) { v.Active, v.Open = true, true })
}

// UseVolume makes a volume one that was used.
func (h *Host) UseVolume(groupName, name string) {
	h.onVolume(groupName, name, func(v *volume) { v.New = false })
}

// CloseVolume lets go of it.
func (h *Host) CloseVolume(groupName, name string) {
	h.onVolume(groupName, name, func(v *volume) { v.Open = false })
}

// SuspendVolume leaves a volume as a command does that is killed while it changes the device.
func (h *Host) SuspendVolume(groupName, name string) {
	h.onVolume(groupName, name, func(v *volume) { v.Active, v.Suspended = true, true })
}

// SuspendPool does that to a thin pool.
func (h *Host) SuspendPool(groupName, name string) {
	h.onPool(groupName, name, func(p *pool) { p.active, p.suspended = true, true })
}

// SetVolumeHealth says what is wrong with a volume; nothing when it is empty.
func (h *Host) SetVolumeHealth(groupName, name, health string) {
	h.onVolume(groupName, name, func(v *volume) { v.health = health })
}

// FillPool sets how much of the data and of the metadata of a thin pool is allocated, in hundredths of a percent.
func (h *Host) FillPool(groupName, name string, data, metadata int32) {
	h.onPool(groupName, name, func(p *pool) { p.data, p.full = data, metadata })
}

// onGroup changes one group and tells the watchers. A name that is not there is a mistake of the test.
func (h *Host) onGroup(name string, change func(*group)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.groups[name]
	if g == nil {
		panic(fmt.Sprintf("agenttest: no group %q", name))
	}
	change(g)
	h.changed()
}

func (h *Host) onVolume(groupName, name string, change func(*volume)) {
	h.onGroup(groupName, func(g *group) {
		v := g.volume(name)
		if v == nil {
			panic(fmt.Sprintf("agenttest: no volume %q in group %q", name, groupName))
		}
		change(v)
	})
}

func (h *Host) onPool(groupName, name string, change func(*pool)) {
	h.onGroup(groupName, func(g *group) {
		p := g.pool(name)
		if p == nil {
			panic(fmt.Sprintf("agenttest: no thin pool %q in group %q", name, groupName))
		}
		change(p)
	})
}

func (g *group) volume(name string) *volume {
	for i := range g.volumes {
		if g.volumes[i].Name == name {
			return &g.volumes[i]
		}
	}
	return nil
}

func (g *group) pool(name string) *pool {
	for i := range g.pools {
		if g.pools[i].name == name {
			return &g.pools[i]
		}
	}
	return nil
}

// used is how much of a physical volume is allocated.
func (g *group) used(pv string) int64 {
	var sum int64
	add := func(on []extents) {
		for _, e := range on {
			if e.pv == pv {
				sum += e.bytes
			}
		}
	}
	for _, v := range g.volumes {
		add(v.on)
	}
	for _, p := range g.pools {
		add(p.on)
	}
	return sum
}

// inUse says whether the kernel has a device on the group's disks.
func (g *group) inUse() bool {
	return slices.ContainsFunc(g.volumes, func(v volume) bool { return v.Active }) ||
		slices.ContainsFunc(g.pools, func(p pool) bool { return p.active })
}

// tick is LVM's clock.
func (h *Host) tick() int64 {
	h.created++
	return firstCreated + h.created
}

func roundUp(bytes int64) int64 { return (bytes + extentBytes - 1) / extentBytes * extentBytes }

// observeVolumes adds the volumes and pools.
func (h *Host) observeVolumes(g *group, out plan.Group) plan.Group {
	for _, v := range g.volumes {
		out.LogicalVolumes = append(out.LogicalVolumes, plan.Volume{
			Name: v.Name, ID: v.ID, UUID: g.volumeUUID(v), SizeBytes: v.SizeBytes, Pool: v.Pool, Source: v.Source,
			Snapshot: v.Snapshot, New: v.New, Removing: v.Removing, Unzeroed: v.Unzeroed, ZeroedBytes: v.ZeroedBytes, FilesystemOnly: v.FilesystemOnly,
			TailOf: v.TailOf, Extents: h.located(v),
			Active: v.Active, Open: h.open(v), Suspended: v.Suspended, Stale: h.stale(g, v), Health: h.health(g, v), CreatedUnix: v.created,
			DeviceID: v.created - firstCreated + 1,
		})
	}
	for _, p := range g.pools {
		seen := plan.Pool{
			Name: p.name, Ours: p.ours, SizeBytes: p.bytes, MetadataBytes: p.meta, DataPermyriad: p.data, MetadataPermyriad: p.full,
			Active: p.active, Suspended: p.suspended, Stale: p.active && p.stale && !h.lost(g, p.on), Health: p.health, Damage: p.damage,
			UUID: g.uuid + "/" + p.name, TransactionID: 1, ChunkBytes: 64 << 10,
		}
		if h.lost(g, p.on) {
			seen.Health = plan.HealthPartial
		}
		if seen.UsageUnknown = !p.active; seen.UsageUnknown {
			seen.DataPermyriad, seen.MetadataPermyriad = 0, 0 // Only the kernel knows.
		}
		for _, v := range g.volumes {
			if strings.HasPrefix(v.Name, p.name+"_meta") {
				seen.Kept = append(seen.Kept, v.Name)
			}
			if v.Pool == p.name {
				seen.TransactionID++
				seen.Volumes++
				seen.VirtualBytes += v.SizeBytes
			}
		}
		out.Pools = append(out.Pools, seen)
	}
	slices.SortFunc(out.LogicalVolumes, func(a, b plan.Volume) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Pools, func(a, b plan.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out.Named()
}

// Unzero makes a volume one that is new and has to be zeroed, as older metadata of LVM does that a person restores.
func (h *Host) Unzero(group, name string) {
	h.onVolume(group, name, func(v *volume) { v.New, v.Unzeroed, v.ZeroedBytes = true, true, 0 })
}

// RuinPool is DamagePool of metadata of which nothing is left.
func (h *Host) RuinPool(groupName string) {
	h.DamagePool(groupName)
	h.onGroup(groupName, func(g *group) {
		for i := range g.pools {
			g.pools[i].ruined = true
		}
	})
}

// What LVM would say, in its kinds.
var (
	errNoSpace = fmt.Errorf("insufficient free space: %w", plan.ErrNoRoom)
	errAbsent  = fmt.Errorf("failed to find logical volume: %w", plan.ErrRefused)
	errLocked  = fmt.Errorf("can't change locked logical volume: %w", plan.ErrMoving)
	errOpen    = fmt.Errorf("logical volume in use: %w", plan.ErrInUse)
)
