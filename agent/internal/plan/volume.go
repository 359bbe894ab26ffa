package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/volumeid"
)

// Tags in LVM that mark what is ours inside a group of ours.
const (
	// TagVolume is the prefix of the tag of a volume or snapshot; its id follows.
	TagVolume = volumeid.Tag
	// TagNew marks a volume that was made empty and not used yet.
	TagNew = volumeid.TagNew
	// TagSnapshot marks a snapshot.
	TagSnapshot = quarry.Group + "/snapshot"
	// TagPool marks a thin pool.
	TagPool = quarry.Group + "/pool"
)

// Volume is one logical volume. Without an id it is not ours.
type Volume struct {
	Name, ID, UUID string
	SizeBytes      int64
	// Pool is the thin pool that it is in; empty for a linear one.
	Pool string
	// Source is the volume that it was copied from, while that exists.
	Source   string
	Snapshot bool
	// New is true for a volume that was made empty and not used yet: what it holds is left over from others.
	New bool
	// Active is true when its device node exists, Open when something has that open.
	Active, Open bool
	// Health says what is wrong with it; empty when it is healthy.
	Health      string
	CreatedUnix int64
}

// Pool is one thin pool.
type Pool struct {
	Name string
	// Ours is true when it carries our tag.
	Ours                     bool
	SizeBytes, MetadataBytes int64
	// DataPermyriad and MetadataPermyriad are allocated, in hundredths of a percent.
	DataPermyriad, MetadataPermyriad int32
	// VirtualBytes is the sum of the sizes of the volumes in it, Volumes their number.
	VirtualBytes int64
	Volumes      int
	// Active is true when its device exists.
	Active bool
	// Health says what is wrong with it; empty when it is healthy.
	Health string
}

// VolumeSpec is the volume that a caller wants, or wants to be rid of.
type VolumeSpec struct {
	Group, OwnerUID, Name, ID string
	// SizeBytes is wanted at least. A copy without a size has that of its source.
	SizeBytes    int64
	Pool, Source string
	Snapshot     bool
	// OverprovisionPercent bounds the virtual sizes in the pool, as a multiple of its size; no bound when zero.
	OverprovisionPercent int32
}

// VolumePlan is what to do for one volume, and what the volume is afterwards.
type VolumePlan struct {
	Plan
	Volume Volume
}

// Volume finds a volume by its name.
func (g Group) Volume(name string) (Volume, bool) {
	for _, v := range g.LogicalVolumes {
		if v.Name == name {
			return v, true
		}
	}
	return Volume{}, false
}

// Pool finds a thin pool by its name.
func (g Group) Pool(name string) (Pool, bool) {
	for _, p := range g.Pools {
		if p.Name == name {
			return p, true
		}
	}
	return Pool{}, false
}

// volumeGroup finds the group of a volume and refuses one that is not the owner's.
func volumeGroup(s Snapshot, name, ownerUID string) (Group, error) {
	g, exists, err := ownGroup(s, GroupSpec{Name: name, OwnerUID: ownerUID}, ErrNotOurs)
	switch {
	case err != nil:
		return Group{}, err
	case !exists:
		return Group{}, fmt.Errorf("group %s: %w", name, ErrNotFound)
	}
	return g, nil
}

// ref is what the steps on a volume need to know about its group.
func (g Group) ref() GroupRef {
	return GroupRef{Name: g.Name, Tag: quarry.TagCluster + g.OwnerUID, Devices: g.paths()}
}

// whole refuses to change a group that LVM would not change.
func (g Group) whole() error {
	if g.Partial {
		return fmt.Errorf("group %s: %w; LVM changes no group that is not complete", g.Name, ErrPartial)
	}
	return nil
}

// roundUp makes whole extents of a size. What cannot be counted is no size that any group has room for.
func (g Group) roundUp(size int64) (int64, error) {
	extent := max(g.ExtentBytes, 1)
	if size > math.MaxInt64-extent {
		return 0, fmt.Errorf("%d bytes in group %s: %w", size, g.Name, ErrNoRoom)
	}
	return (size + extent - 1) / extent * extent, nil
}

// WithVolume is the snapshot after a volume was made or changed by us, so that the next decision need not wait for an observation.
// It does nothing to a snapshot that shows the volume like that already.
func (s Snapshot) WithVolume(group, uuid string, v Volume) Snapshot {
	return s.edit(group, uuid, func(g *Group) {
		g.take(v.Name)
		at, _ := slices.BinarySearchFunc(g.LogicalVolumes, v.Name, func(e Volume, n string) int { return cmp.Compare(e.Name, n) })
		g.LogicalVolumes = slices.Insert(g.LogicalVolumes, at, v)
		g.count(v, 1)
	})
}

// WithoutVolume is the snapshot after a volume was removed by us.
func (s Snapshot) WithoutVolume(group, uuid, name string) Snapshot {
	return s.edit(group, uuid, func(g *Group) { g.take(name) })
}

// WithGroup is the snapshot with one group as it was observed later.
func (s Snapshot) WithGroup(now Group) Snapshot {
	return s.edit(now.Name, now.UUID, func(g *Group) { *g = now })
}

// edit copies as much as it changes: others read the snapshot.
func (s Snapshot) edit(name, uuid string, change func(*Group)) Snapshot {
	s.Groups = slices.Clone(s.Groups)
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Name != name || g.UUID != uuid {
			continue
		}
		g.LogicalVolumes, g.Pools, g.PVs = slices.Clone(g.LogicalVolumes), slices.Clone(g.Pools), slices.Clone(g.PVs)
		change(g)
		g.Volumes = volumeNames(*g)
	}
	return s
}

// take removes a volume, if it is there.
func (g *Group) take(name string) {
	if i := slices.IndexFunc(g.LogicalVolumes, func(v Volume) bool { return v.Name == name }); i >= 0 {
		g.count(g.LogicalVolumes[i], -1)
		g.LogicalVolumes = slices.Delete(g.LogicalVolumes, i, i+1)
	}
}

// count adds a volume to what is allocated, or takes it off with the sign -1. Which device has the extents is LVM's choice and not
// known where there are several; no decision on devices is made without a new observation.
func (g *Group) count(v Volume, sign int64) {
	if v.Pool == "" {
		g.FreeBytes -= sign * v.SizeBytes
		if len(g.PVs) == 1 {
			g.PVs[0].FreeBytes -= sign * v.SizeBytes
		}
		return
	}
	for i := range g.Pools {
		if g.Pools[i].Name == v.Pool {
			g.Pools[i].VirtualBytes += sign * v.SizeBytes
			g.Pools[i].Volumes += int(sign)
		}
	}
}

// volumeNames are the names of everything in a group that keeps it: all volumes, and pools that are not ours.
func volumeNames(g Group) []string {
	var out []string
	for _, v := range g.LogicalVolumes {
		out = append(out, v.Name)
	}
	for _, p := range g.Pools {
		if !p.Ours {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Named fills Volumes from the volumes and pools.
func (g Group) Named() Group {
	g.Volumes = volumeNames(g)
	return g
}
