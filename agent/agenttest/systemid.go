package agenttest

import (
	"context"
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/systemid"
)

// SetSystemID writes the LVM system ID of a node into a group, as its own node would, or none when it is empty.
func (h *Host) SetSystemID(groupName, id string) {
	h.onGroup(groupName, func(g *group) { g.systemID = id })
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

// Move takes disks out of the node and plugs them into another one, with what is on them. A group moves as a whole.
func (h *Host) Move(to *Host, names ...string) {
	disks, groups := h.takeOut(names)
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, d := range disks {
		if to.disks[d.Name] != nil {
			panic(fmt.Sprintf("agenttest: node %s has a disk %q", to.node, d.Name))
		}
		to.minors++
		d.number, d.plugged = to.minors, true
		d.events++
		to.disks[d.Name] = d
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
