package volume

import (
	"cmp"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
)

// With is the snapshot after we made or changed a volume, so that the next decision need not wait for an observation. A snapshot that
// shows the volume like that already stays the same.
func With(s plan.Snapshot, groupName, groupUUID string, v plan.Volume) plan.Snapshot {
	return edit(s, groupName, groupUUID, func(g *group) {
		g.take(v.Name)
		at, _ := slices.BinarySearchFunc(g.LogicalVolumes, v.Name, func(e plan.Volume, n string) int { return cmp.Compare(e.Name, n) })
		g.LogicalVolumes = slices.Insert(g.LogicalVolumes, at, v)
		g.count(v, 1)
		for i, p := range g.Pools {
			// A thin volume works on the device of its pool.
			g.Pools[i].Active = p.Active || v.Active && p.Name == v.Pool
		}
	})
}

// Without is the snapshot after we removed a volume.
func Without(s plan.Snapshot, groupName, groupUUID, name string) plan.Snapshot {
	return edit(s, groupName, groupUUID, func(g *group) { g.take(name) })
}

// After is the snapshot after the steps of a plan on one volume.
func After(s plan.Snapshot, groupName string, p Plan) plan.Snapshot {
	removed := false
	for _, step := range p.Steps {
		r, ok := step.(RemoveLV)
		if ok {
			s = Without(s, groupName, p.GroupUUID, r.Name)
		}
		removed = ok
	}
	if removed {
		return s
	}
	return With(s, groupName, p.GroupUUID, p.Volume)
}

// WithGroup is the snapshot with one group as it was observed later.
func WithGroup(s plan.Snapshot, now plan.Group) plan.Snapshot {
	return edit(s, now.Name, now.UUID, func(g *group) { g.Group = now })
}

// edit copies as much as it changes: others read the snapshot.
func edit(s plan.Snapshot, name, uuid string, change func(*group)) plan.Snapshot {
	s.Groups = slices.Clone(s.Groups)
	for i, was := range s.Groups {
		if was.Name != name || was.UUID != uuid {
			continue
		}
		g := group{was}
		g.LogicalVolumes, g.Pools, g.PVs = slices.Clone(g.LogicalVolumes), slices.Clone(g.Pools), slices.Clone(g.PVs)
		change(&g)
		s.Groups[i] = g.Named()
	}
	return s
}

// take removes a volume, if it is there.
func (g *group) take(name string) {
	if i := slices.IndexFunc(g.LogicalVolumes, func(v plan.Volume) bool { return v.Name == name }); i >= 0 {
		g.count(g.LogicalVolumes[i], -1)
		g.LogicalVolumes = slices.Delete(g.LogicalVolumes, i, i+1)
	}
}

// count adds a volume to what is allocated, or takes it off with the sign -1. LVM chooses which device has the extents: with several
// devices the choice is not known here. Every decision on devices rests on a new observation.
func (g *group) count(v plan.Volume, sign int64) {
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
