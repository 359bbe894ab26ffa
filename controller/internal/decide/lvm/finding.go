package lvm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

func bad(reason, message string) backend.Finding {
	return backend.Finding{Kind: backend.Bad, Reason: reason, Message: message}
}

// unreported is the group that LVM cannot report: what is in it is not known.
func (h host) unreported() backend.Finding {
	return bad(v1alpha1.ReasonVolumeGroupUnknown, decide.Unreported(unknown(h.view.own.spec, h.node))+
		"; nothing is changed here until it can, or until what cannot be read is taken out of the node")
}

// partial is the group that lacks a disk. It names the disk, and the volumes that were on it.
func (h host) partial() backend.Finding {
	for _, g := range h.groups {
		if !g.Partial {
			continue
		}
		text := fmt.Sprintf("a disk of volume group %s is missing%s; ", g.Name, h.missingPaths())
		if lost := h.partialVolumes(g); len(lost) > 0 {
			text += "volumes that lack a part: " + backend.Shorten(lost, 10) + "; "
		} else {
			text += "no volume is known to have a part on it; "
		}
		return bad(v1alpha1.ReasonPartial, text+
			"the other volumes work and can be deleted; LVM makes none, and none larger, until the disk is back or the group has forgotten it"+cutOff(g))
	}
	return backend.Finding{}
}

// cutOff says that a move was cut off in a group, besides what else is wrong there.
func cutOff(g decide.Group) string {
	if g.Moving == nil || g.Moving.Left == "" {
		return ""
	}
	return "; extents were being moved in it: " + g.Moving.Left
}

// stale is the group with volumes that lead to a disk that dropped off. LVM sees it again, and the kernel's devices do not. The agent maps anew
// what nobody has open, so those that stay are open.
func (h host) stale() backend.Finding {
	for _, g := range h.groups {
		if len(g.StaleVolumes) > 0 {
			return bad(v1alpha1.ReasonVolumeStale, fmt.Sprintf(
				"a disk of volume group %s dropped off while it was in use, and nothing can be read from volumes that lead to where it was: %s; "+
					"each works again once the pods that use it, or a volume of the same thin pool, have ended and start anew",
				g.Name, backend.Shorten(h.called(g, g.StaleVolumes), 10)))
		}
	}
	return backend.Finding{}
}

// borrowed is the group that is on record for another node of the Cluster: its disks were moved to this host. It stays that node's, so
// nothing is recorded here, changed or removed. Only the UUID of a group tells it from others: disks without a serial number have the same
// names on all nodes, and so the same UUIDs as physical volumes. A group that names this node was imported: what records it elsewhere is older.
func (h host) borrowed() backend.Finding {
	for _, g := range h.groups {
		if from := h.recordedElsewhere(g.UUID); from != "" && !h.isHere(g) {
			return bad(v1alpha1.ReasonVolumeGroupConflict, fmt.Sprintf(
				"volume group %s is that of %s: its disks were moved here; nothing is changed here until they are back there",
				call(g.Name, g.UUID), from))
		}
	}
	return backend.Finding{}
}

// recordedElsewhere names what records a group for another node: a Member or, unless the Member of this host records it, a volume that was
// made in it there. It is empty when nothing does.
func (h host) recordedElsewhere(uuid string) string {
	if uuid == "" {
		return ""
	}
	for _, m := range h.view.seen.World.Members {
		if r := m.Spec.Group; r != nil && string(m.Spec.Node) != h.m.Node && r.UUID == uuid {
			return fmt.Sprintf("member %s on node %s", m.Name, m.Spec.Node)
		}
	}
	if r := h.m.Record(); r != nil && r.UUID == uuid {
		return ""
	}
	for _, at := range slices.Sorted(maps.Keys(h.view.seen.World.Volumes)) {
		for _, v := range h.view.seen.World.Volumes[at] {
			// The handle outranks the affinity, which a person may have written.
			node := at
			if id, err := volumeid.Parse(v.Handle); err == nil {
				node = id.Node
			}
			if v.GroupUUID == uuid && node != "" && node != h.m.Node {
				return fmt.Sprintf("volume %s on node %s", v, node)
			}
		}
	}
	return ""
}

// scattered is the group of which only a part is seen, and too little to report the group: what the rest holds is not known. Physical
// volumes without a group are what an interrupted removal leaves behind, unless a disk of the recorded group is away.
func (h host) scattered() backend.Finding {
	var parts []string
	for _, d := range h.node.Devices {
		mine := d.OwnerUID == h.view.own.spec.UID() && d.VolumeGroup != ""
		if mine && !h.node.Lists(d) || h.away() && disk.Orphan(d, h.view.own.spec.UID()) {
			parts = append(parts, d.Path)
		}
	}
	if len(parts) == 0 {
		return backend.Finding{}
	}
	return bad(v1alpha1.ReasonVolumeGroupUnknown, fmt.Sprintf(
		"only a part of volume group %s is seen, on %s: what else is in it is not known, and nothing is removed until it is",
		h.recordedName(""), backend.Shorten(parts, 10)))
}

// away reports whether the recorded group is not seen, and a disk that it was on is not there.
func (h host) away() bool {
	r := h.m.Record()
	if r == nil || r.UUID == "" || h.seen(r.UUID) >= 0 || slices.Contains(h.view.own.spec.Lost, r.UUID) {
		return false
	}
	return slices.ContainsFunc(h.before(nil), func(d v1alpha1.MemberDevice) bool {
		now, ok := h.node.Device(d.Path)
		return !ok || d.Identity != "" && disk.Identity(now) != d.Identity
	})
}

// hidden is the recorded group that is not seen and may be there: on a disk that cannot be read, whichever that is, or on one that it was
// on and that is neither clean nor left behind by an interrupted removal.
func (h host) hidden() backend.Finding {
	r := h.m.Record()
	if r == nil || r.UUID == "" || h.seen(r.UUID) >= 0 || slices.Contains(h.view.own.spec.Lost, r.UUID) {
		return backend.Finding{}
	}
	where := h.mayHideOn()
	if len(where) == 0 {
		return backend.Finding{}
	}
	return bad(v1alpha1.ReasonVolumeGroupUnknown, fmt.Sprintf(
		"volume group %s is not seen, and may be on %s: nothing is removed until it is seen, or each of them is clean or taken out of the node",
		call(h.recordedName(r.UUID), r.UUID), backend.Shorten(where, 10)))
}

// vanished names the volumes that have to be there, and of which the host has no logical volume. Nothing is changed then: what was
// removed by mistake can be brought back as long as nothing took its place.
func (h host) vanished() backend.Finding {
	gone := h.vanishedVolumes()
	if len(gone) == 0 {
		return backend.Finding{}
	}
	return bad(v1alpha1.ReasonVolumeLost, fmt.Sprintf(
		"no logical volume exists of %s; nothing is changed here until they are back, or nothing needs them any more", backend.Shorten(gone, 10)))
}

// has reports whether a volume is in the group that was recorded for it, or in any group of the Cluster when none was. An administrator
// may have renamed the group.
func (h host) has(v backend.Volume) bool {
	id, err := volumeid.Parse(v.Handle)
	if err != nil || id.Node != h.m.Node {
		return false
	}
	return slices.ContainsFunc(h.groups, func(g decide.Group) bool {
		return (v.GroupUUID == "" || v.GroupUUID == g.UUID) && slices.Contains(g.Volumes, id.Name)
	})
}

// restored reports whether the Cluster came back without what belongs to it, as from a backup: its volumes exist, and neither a record nor
// a group of it does anywhere.
func (v *View) restored() bool {
	recorded := func(m *v1alpha1.Member) bool {
		r := m.Spec.Group
		return r != nil && (r.UUID != "" || len(r.Forming) > 0)
	}
	if len(v.Hosts()) > 0 || slices.ContainsFunc(v.seen.World.Members, recorded) {
		return false
	}
	for _, volumes := range v.seen.World.Volumes {
		if len(volumes) > 0 {
			return true
		}
	}
	return false
}

// earlier is the host of a Cluster that came back from a backup. A new group on a clean disk would hide that its volumes are elsewhere.
func (h host) earlier() backend.Finding {
	var volumes []string
	for _, at := range h.view.seen.World.Volumes {
		for _, v := range at {
			volumes = append(volumes, v.String())
		}
	}
	slices.Sort(volumes)
	return bad(v1alpha1.ReasonVolumeGroupLost, "volumes of an earlier Cluster of this name exist, and no volume group is made until they are "+
		"found or deleted: "+backend.Shorten(volumes, 10)+h.strangers()+h.bequest())
}

// strangers names the devices with the tag of a Cluster that does not exist, as an addition to a message. After a restore they may be
// the Cluster's own, under the UID that it had.
func (h host) strangers() string {
	var text string
	for _, d := range h.node.Devices {
		owns := func(c claimant) bool { return c.spec.UID() == d.OwnerUID }
		if d.OwnerUID != "" && !owns(h.view.own) && !slices.ContainsFunc(h.view.rivals, owns) {
			text += fmt.Sprintf("; %s belongs to a Cluster with UID %s, which does not exist any more", d.Path, d.OwnerUID)
		}
	}
	return text
}

// shadowed is the group of a member that was declared lost and has come back under the name that the host's own group has, or is to
// have: agents know groups by name and tag, and would change the wrong one.
func (h host) shadowed() backend.Finding {
	var names []string
	for _, g := range h.groups {
		names = append(names, g.Name)
	}
	if len(names) == 0 {
		names = []string{h.view.own.spec.Group}
	}
	for _, g := range h.lostGroups {
		if slices.Contains(names, g.Name) {
			return bad(v1alpha1.ReasonVolumeGroupConflict, fmt.Sprintf(
				"volume group %s of a member that was declared lost is back on this host; nothing is changed here until its disks are taken out",
				call(g.Name, g.UUID)))
		}
	}
	return backend.Finding{}
}

// unserved is the host that has nothing and gets nothing, where every device is listed with what speaks against it, and the host that
// does not get what the spec names.
func (h host) unserved(c disk.Choice, steps int) backend.Finding {
	switch {
	case len(h.groups) == 0 && steps == 0 && c.Wake > 0 && len(c.Problems) == 0:
		return backend.Finding{
			Kind: backend.Busy, Reason: v1alpha1.ReasonPreparing,
			Message: "waits for disks that belong in the new volume group: " + join(c.Passed),
		}
	case len(h.groups) == 0 && steps == 0:
		return empty(c)
	case len(c.Problems) > 0:
		return bad(c.Problems[0].Reason, join(c.Problems))
	case len(h.groups) > 0 && steps == 0 && len(c.Passed) > 0:
		return backend.Finding{Message: "The member serves volumes. Clean disks that are not taken: " + join(c.Passed)}
	}
	return backend.Finding{}
}

func empty(c disk.Choice) backend.Finding {
	refused := slices.Concat(c.Problems, c.Passed, c.Refused)
	if len(refused) == 0 {
		return bad(v1alpha1.ReasonNoCleanDevice, "no device is chosen by spec.devices")
	}
	reason := refused[0].Reason
	for _, r := range refused {
		if r.Reason != reason || r.Reason == v1alpha1.ReasonDeviceRefused {
			reason = v1alpha1.ReasonNoCleanDevice
		}
	}
	return bad(reason, "no clean device: "+join(refused))
}

func join(refused []disk.Refused) string {
	parts := make([]string, 0, len(refused))
	for _, r := range refused {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "; ")
}
