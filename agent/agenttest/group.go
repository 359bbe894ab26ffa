package agenttest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/systemid"
)

// Group is a volume group of the fake host, as tests see it.
type Group struct {
	Name string
	// OwnerUID is empty for a group without our tag, SystemID for one that names no node.
	OwnerUID, UUID, SystemID string
	// Disks are the kernel names, ordered.
	Disks []string
	// Missing is how many of its physical volumes are on no disk of this host.
	Missing int
	// Volumes are the names of its logical volumes.
	Volumes []string
}

// group is what LVM's metadata says.
type group struct {
	name, uuid string
	tags       []string
	pvs        []string // UUIDs
	volumes    []volume
	pools      []pool
	// flagged are the physical volumes that were missing when the group was changed: LVM takes them for missing until they are restored.
	flagged map[string]bool
	// moving is the physical volume that a pvmove takes extents off, which was begun and is not over; to are those that it puts them on.
	moving        *moving
	emptied       string // LVM's own volume that one has left which is over
	mute          error  // why LVM does not report it
	damaged       bool   // nobody can read its metadata
	systemID      string // of the node that it belongs to; empty for none
	autoactivated bool   // the host activates what is in it at a boot
}

// AddForeignGroup makes a volume group without our tag on empty disks.
func (h *Host) AddForeignGroup(name string, disks ...string) { h.addGroup(name, "", nil, disks) }

// AddGroup makes a volume group that another call, or another agent before, made for the owner.
func (h *Host) AddGroup(name, ownerUID string, disks ...string) {
	h.addGroup(name, systemid.Of(h.node), []string{quarry.TagCluster + ownerUID}, disks)
}

func (h *Host) addGroup(name, systemID string, tags, disks []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &group{name: name, uuid: h.groupUUID(name), tags: tags, systemID: systemID}
	for _, n := range disks {
		d := h.disks[n]
		if d == nil {
			panic(fmt.Sprintf("agenttest: no disk %q", n))
		}
		d.pv = fakeUUID("pv", h.node, name, n)
		g.pvs = append(g.pvs, d.pv)
	}
	h.groups[name] = g
	h.changed()
}

// groupUUID is the UUID of a group that is made now. One that is made later, of other disks or after the volumes of the first, is another one.
func (h *Host) groupUUID(name string) string {
	return fakeUUID("group", h.node, name, fmt.Sprint(h.minors, h.created))
}

// DropGroup forgets a group with its volumes, and empties its disks.
func (h *Host) DropGroup(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.groups[name]; g != nil {
		for _, pv := range g.pvs {
			if d := h.carrier(pv); d != nil {
				d.pv, d.outdated = "", nil
			}
		}
	}
	delete(h.groups, name)
	h.changed()
}

// Groups are all volume groups, ordered by name, those with missing disks included.
func (h *Host) Groups() []Group {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Group
	for _, g := range h.groups {
		view := Group{Name: g.name, OwnerUID: g.owner(), UUID: g.uuid, SystemID: g.systemID, Volumes: strings.Fields(g.emptied)}
		for _, pv := range g.pvs {
			if d := h.carrier(pv); d != nil {
				view.Disks = append(view.Disks, d.Name)
			} else {
				view.Missing++
			}
		}
		for _, v := range g.volumes {
			view.Volumes = append(view.Volumes, v.Name)
		}
		slices.Sort(view.Disks)
		out = append(out, view)
	}
	slices.SortFunc(out, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// IsEmpty says whether nothing at all is written on the disk.
func (h *Host) IsEmpty(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.disks[name]
	return d != nil && d.empty()
}

func (h *Host) groupOf(pv string) *group {
	for _, g := range h.groups {
		if slices.Contains(g.pvs, pv) {
			return g
		}
	}
	return nil
}

// carrier is the disk with that physical volume, plugged or not.
func (h *Host) carrier(pv string) *disk {
	for _, d := range h.disks {
		if d.pv == pv {
			return d
		}
	}
	return nil
}

// resurface brings a group back that a disk still tells of after the others forgot the disk and the group: so does LVM, once such a
// disk is plugged in again.
func (h *Host) resurface() {
	for _, d := range h.disks {
		switch {
		case d.outdated == nil || !d.plugged:
		case h.groupOf(d.pv) != nil:
			d.outdated = nil
		case h.groups[d.outdated.name] == nil:
			h.groups[d.outdated.name], d.outdated = d.outdated, nil
		}
	}
}

// active says whether a logical volume keeps the disk open.
func (h *Host) active(d *disk) bool {
	g := h.groupOf(d.pv)
	return d.pv != "" && g != nil && g.inUse() && g.used(d.pv) > 0
}

func (d *disk) pvSize() int64 { return (d.SizeBytes - 1<<20) / extentBytes * extentBytes }

// observeGroups adds the groups of which at least one disk is present.
func (h *Host) observeGroups(s *plan.Snapshot) {
	for _, g := range h.groups {
		out, present := h.observeGroup(g)
		why := h.failure(g)
		switch {
		case why != nil:
			h.unreported(s, g, why)
		case !present:
		case out.OwnerUID == "":
			s.ForeignGroups = append(s.ForeignGroups, g.name)
		default:
			s.Groups = append(s.Groups, out)
		}
	}
	slices.Sort(s.ForeignGroups)
	slices.SortFunc(s.Groups, func(a, b plan.Group) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.UnknownGroups, func(a, b plan.UnknownGroup) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), slices.Compare(a.Devices, b.Devices))
	})
}

// observeGroup is a group as an observation shows it, and whether any of its disks is present.
func (h *Host) observeGroup(g *group) (plan.Group, bool) {
	out := plan.Group{Name: g.name, UUID: g.uuid, OwnerUID: g.owner(), OwnersBefore: g.owners(quarry.TagOwnerBefore), ExtentBytes: extentBytes, SystemID: g.systemID, Access: h.access(g), Autoactivated: g.autoactivated, Emptied: g.emptied}
	present := false
	for _, uuid := range g.pvs {
		pv := plan.PV{UUID: uuid}
		if d := h.carrier(uuid); d != nil {
			pv.SizeBytes, pv.FreeBytes = d.pvSize(), d.pvSize()-g.used(uuid)
			if d.plugged && !d.dead {
				pv.Path = d.path()
				present = true
			}
		}
		pv.Returned = pv.Path != "" && g.flagged[uuid]
		out.Partial = out.Partial || pv.Path == "" || pv.Returned
		out.SizeBytes += pv.SizeBytes
		out.FreeBytes += pv.FreeBytes
		out.PVs = append(out.PVs, pv)
	}
	if g.moving != nil {
		out.Moving = &plan.Moving{FromUUID: g.moving.from, Bytes: g.moving.bytes}
	}
	slices.SortFunc(out.PVs, func(a, b plan.PV) int { return strings.Compare(a.Path, b.Path) })
	return h.observeVolumes(g, out), present
}

// fakeUUID looks like one of LVM's.
func fakeUUID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	x := hex.EncodeToString(sum[:16])
	return strings.Join([]string{x[:6], x[6:10], x[10:14], x[14:18], x[18:22], x[22:26], x[26:]}, "-")
}

// whole is the group, of which every device must be present and visible to the command.
func (s session) whole(name string, visible []string) (*group, error) {
	g := s.groups[name]
	if g == nil {
		return nil, fmt.Errorf("no such group")
	}
	if err := s.accessible(g); err != nil {
		return nil, err
	}
	for _, pv := range g.pvs {
		if !s.visible(g, pv, visible) {
			return nil, fmt.Errorf("physical volume %s is missing", pv)
		}
	}
	return g, nil
}

// visible reports whether a physical volume of the group is there for a command, and LVM does not take it for missing.
func (h *Host) visible(g *group, pv string, devices []string) bool {
	d := h.carrier(pv)
	return d != nil && d.plugged && !d.dead && !g.flagged[pv] && slices.Contains(devices, d.path())
}

// partly is the group, of which devices may be missing. Changing it like that flags what is missing.
func (s session) partly(name string, visible []string) (*group, error) {
	g := s.groups[name]
	if g == nil {
		return nil, fmt.Errorf("no such group")
	}
	if err := s.accessible(g); err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(g.pvs), func(pv string) bool { return s.visible(g, pv, visible) })
	if len(missing) == len(g.pvs) {
		return nil, fmt.Errorf("no such group")
	}
	for _, pv := range missing {
		if g.flagged == nil {
			g.flagged = map[string]bool{}
		}
		g.flagged[pv] = true
	}
	return g, nil
}

// restorePV refuses a device that is not the one that is flagged.
func (s session) restorePV(ctx context.Context, step plan.RestorePV) error {
	return s.change(ctx, func() error {
		g, d := s.groups[step.Group], s.find(step.Device)
		if g == nil || d == nil || !slices.Contains(step.GroupDevices, step.Device) || !g.flagged[d.pv] || s.accessible(g) != nil {
			return fmt.Errorf("vgextend %s: %s is not missing from the group", step.Group, step.Device)
		}
		delete(g.flagged, d.pv)
		return nil
	})
}

// lost reports whether LVM takes a physical volume that holds some of the extents for missing.
func (h *Host) lost(g *group, on []extents) bool {
	return slices.ContainsFunc(on, func(e extents) bool {
		d := h.carrier(e.pv)
		return d == nil || !d.plugged || d.dead || g.flagged[e.pv]
	})
}

// health is what is wrong with a volume: a test may say so, and it lacks a part when it, or its pool, does.
func (h *Host) health(g *group, v volume) string {
	on := v.on
	if p := g.pool(v.Pool); p != nil {
		on = p.on
	}
	if h.lost(g, on) {
		return plan.HealthPartial
	}
	return v.health
}
