package agenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/claim"
	"quarry.storage/quarry/agent/internal/plan/repair"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/systemid"
)

// SetSystemID writes the LVM system ID of a node into a group, as its own node would, or none when it is empty.
func (h *Host) SetSystemID(groupName, id string) {
	h.onGroup(groupName, func(g *group) { g.systemID = id })
}

// Autoactivate lets a group be one of which the host activates everything at a boot, as older agents and other tools make them.
func (h *Host) Autoactivate(groupName string) {
	h.onGroup(groupName, func(g *group) { g.autoactivated = true })
}

// stopAutoactivation refuses a group that is not whole. One for which it was done already is none to the step.
func (s session) stopAutoactivation(ctx context.Context, step claim.StopAutoactivation) error {
	return s.change(ctx, func() error {
		g, err := s.whole(step.Name, step.GroupDevices)
		if err != nil {
			return fmt.Errorf("vgchange %s: %w", step.Name, err)
		}
		g.autoactivated = false
		return nil
	})
}

// access says whose node a group is.
func (h *Host) access(g *group) plan.Access {
	switch g.systemID {
	case "":
		return plan.AccessNone
	case systemid.Of(h.node):
		return plan.AccessOwn
	}
	return plan.AccessOther
}

// accessible refuses a group of another node, as every command of LVM does.
func (h *Host) accessible(g *group) error {
	if h.access(g) != plan.AccessOther {
		return nil
	}
	return fmt.Errorf("cannot access VG %s with system ID %s with local system ID %s", g.name, g.systemID, systemid.Of(h.node))
}

// setSystemID refuses a group that is not the one of from, that is this node's already, or that is not whole.
func (s session) setSystemID(ctx context.Context, name, from string, devices []string) error {
	return s.change(ctx, func() error {
		g := s.groups[name]
		switch {
		case g == nil:
			return fmt.Errorf("vgchange %s: no such group", name)
		case s.access(g) == plan.AccessOwn:
			return fmt.Errorf("vgchange %s: system ID is already %q", name, g.systemID)
		case g.systemID != from:
			return fmt.Errorf("vgchange %s: %w", name, s.accessible(g))
		}
		was := g.systemID
		g.systemID = systemid.Of(s.node)
		if _, err := s.whole(name, devices); err != nil {
			g.systemID = was
			return fmt.Errorf("vgchange %s: %w", name, err)
		}
		return nil
	})
}

// giveGroup refuses a group that is not whole, or not that of the owner before.
func (s session) giveGroup(ctx context.Context, step claim.TakeOverVG) error {
	return s.change(ctx, func() error {
		g, err := s.whole(step.Name, step.GroupDevices)
		switch {
		case err != nil:
			return fmt.Errorf("vgchange %s: %w", step.Name, err)
		case s.access(g) == plan.AccessOther:
			return fmt.Errorf("vgchange %s: %w", step.Name, s.accessible(g))
		case g.owner() != step.From:
			return fmt.Errorf("vgchange %s: it has no tag of %s", step.Name, step.From)
		}
		g.tags = slices.DeleteFunc(g.tags, func(t string) bool { return t == quarry.TagCluster+step.From })
		g.tags = append(g.tags, quarry.TagCluster+step.To, quarry.TagOwnerBefore+step.From)
		return nil
	})
}

// Move takes disks out of the node and plugs them into another one, with what is on them. A group moves as a whole.
func (h *Host) Move(to *Host, names ...string) {
	h.MoveAs(to, func(name string) string { return name }, names...)
}

// MoveAs is Move, with other kernel names there.
func (h *Host) MoveAs(to *Host, as func(name string) string, names ...string) {
	disks, groups := h.takeOut(names)
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, d := range disks {
		to.plugIn(d, as(d.Name))
	}
	for _, g := range groups {
		if to.groups[g.name] != nil {
			panic(fmt.Sprintf("agenttest: node %s has a group %q", to.node, g.name))
		}
		to.groups[g.name] = g
	}
	to.changed()
}

// takeOut takes disks out of the node, with the groups on them.
func (h *Host) takeOut(names []string) (disks []*disk, groups []*group) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pvs []string
	for _, n := range names {
		d := h.disks[n]
		if d == nil {
			panic(fmt.Sprintf("agenttest: no disk %q", n))
		}
		disks, pvs = append(disks, d), append(pvs, d.pv)
		delete(h.disks, n)
	}
	for name, g := range h.groups {
		here := slices.DeleteFunc(slices.Clone(g.pvs), func(pv string) bool { return slices.Contains(pvs, pv) })
		switch len(here) {
		case 0:
			groups = append(groups, g)
			delete(h.groups, name)
		case len(g.pvs):
		default:
			panic(fmt.Sprintf("agenttest: only a part of group %q is moved", name))
		}
	}
	for i := range groups {
		for v := range groups[i].volumes {
			// What moved is not active anywhere.
			groups[i].volumes[v].Active = false
		}
	}
	h.changed()
	return disks, groups
}

// Record is a logical volume as the disks have it, whether they are plugged in or not, and whatever LVM reports of it. Two records of one
// volume that differ in GroupUUID or Created are records of two volumes: one was lost, and another one has its name.
type Record struct {
	Group, GroupUUID, OwnerUID string
	Name, ID                   string
	SizeBytes, Created         int64
	// Disks are the kernel names of the disks that hold it, those of its thin pool for a thin one; ordered.
	Disks []string
	// Whole is false when a part of it is on no disk any more. Present is false when a part of it is on no disk that is plugged in.
	Whole, Present bool
	// Open is true while a mount, or whoever OpenVolume stands for, has it open.
	Open bool
}

// Records returns all logical volumes of the host, ordered by group and name.
func (h *Host) Records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Record
	for _, g := range h.groups {
		for _, v := range g.volumes {
			r := Record{
				Group: g.name, GroupUUID: g.uuid, OwnerUID: g.owner(), Name: v.Name, ID: v.ID, SizeBytes: v.SizeBytes, Created: v.created,
				Whole: true, Present: true, Open: h.open(v),
			}
			on := v.on
			if p := g.pool(v.Pool); v.Pool != "" && p != nil {
				on = p.on
			}
			for _, e := range on {
				d := h.carrier(e.pv)
				r.Whole = r.Whole && d != nil && slices.Contains(g.pvs, e.pv)
				r.Present = r.Present && d != nil && d.plugged
				if d != nil {
					r.Disks = append(r.Disks, d.Name)
				}
			}
			slices.Sort(r.Disks)
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name)) })
	return out
}

// Written describes all that is written on a disk, and what the group on it holds. Two descriptions are the same as long as nobody wrote.
func (h *Host) Written(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.disks[name]
	if d == nil {
		return ""
	}
	var wipe wipeMark
	if d.wipe != nil {
		wipe = *d.wipe
	}
	out := fmt.Sprintf("%v %v %q %v %q", d.signatures, d.partitions, d.data, wipe, d.pv)
	if g := h.groupOf(d.pv); d.pv != "" && g != nil {
		out += fmt.Sprintf(" in %s %s %v %v", g.name, g.uuid, g.tags, g.pvs)
		for _, v := range g.volumes {
			out += fmt.Sprintf(" %s %d", v.Name, v.SizeBytes)
		}
	}
	return out
}

// Member reports whether a disk is a physical volume of a group, or of none yet.
func (h *Host) Member(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.disks[name]
	return d != nil && d.pv != ""
}

// Plugged reports whether a disk is there and plugged in.
func (h *Host) Plugged(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.disks[name]
	return d != nil && d.plugged
}

func (g *group) owner() string { return strings.Join(g.owners(quarry.TagCluster), " and ") }

// owners returns what follows a prefix in its tags, ordered.
func (g *group) owners(prefix string) []string {
	var out []string
	for _, t := range g.tags {
		if uid, ok := strings.CutPrefix(t, prefix); ok {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// Retag gives a group to another owner, or to nobody when it is empty, as an administrator would.
func (h *Host) Retag(groupName, ownerUID string) {
	h.onGroup(groupName, func(g *group) {
		g.tags = nil
		if ownerUID != "" {
			g.tags = []string{quarry.TagCluster + ownerUID}
		}
	})
}

// repairPool keeps the old metadata in new room, or in what is kept back for a repair.
func (s session) repairPool(ctx context.Context, step repair.Metadata) error {
	return s.command(ctx, "lvconvert", step.Group, func(g *group) error {
		p, kept := g.pool(step.Name), 0
		for _, v := range g.volumes {
			if v.Pool == step.Name && v.Active {
				return errors.New("active pools cannot be repaired")
			}
			if strings.HasPrefix(v.Name, step.Name+"_meta") {
				kept++
			}
		}
		switch {
		case p == nil:
			return errAbsent
		case p.active:
			return errors.New("active pools cannot be repaired")
		case p.ruined:
			return fmt.Errorf("%w: what can be repaired does not tell what LVM recorded", plan.ErrDamaged)
		}
		on, err := s.allocate(g, p.meta)
		if err != nil && p.spent {
			return err
		}
		p.spent, p.damaged, p.damage = err != nil, false, ""
		g.volumes = append(g.volumes, volume{Volume: Volume{Name: fmt.Sprintf("%s_meta%d", p.name, kept), SizeBytes: p.meta}, on: on, created: s.tick()})
		return nil
	})
}

// TagVolume gives a logical volume an id, as an administrator would.
func (h *Host) TagVolume(groupName, name, id string) {
	h.onVolume(groupName, name, func(v *volume) { v.ID = id })
}
