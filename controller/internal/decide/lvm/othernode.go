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
	"quarry.storage/quarry/pkg/systemid"
)

// others returns the groups of the Cluster on the host that are another node's by their system ID.
func (h host) others() []decide.Group {
	return slices.DeleteFunc(slices.Clone(h.node.OtherNodes), func(g decide.Group) bool {
		return g.OwnerUID != h.view.own.spec.UID() || slices.Contains(h.view.own.spec.Lost, g.UUID)
	})
}

// moved is the group of another node whose disks are seen here: they were moved, or both nodes see them. It stays that node's. A host without a
// group gets none beside it: what is here may be what it is to have.
func (h host) moved() backend.Finding {
	others := h.others()
	if len(others) == 0 {
		return backend.Finding{}
	}
	g, way := others[0], "bring its disks back there"
	if why := h.unimportable(g); why == "" {
		way += ", or approve the plan, which makes the group this node's"
	} else {
		way += " (it cannot be imported here: " + why + ")"
	}
	return bad(v1alpha1.ReasonOtherNode, fmt.Sprintf(
		"volume group %s on disks of this host is that of %s: nothing is taken from it and nothing in it is used here; %s",
		call(g.Name, g.UUID), systemid.Describe(g.SystemID), way))
}

// imports returns the step that makes a moved group this node's. It waits for approval.
func (h host) imports() []Step {
	others := h.others()
	if len(others) == 0 {
		return h.inherits()
	}
	if h.unimportable(others[0]) != "" {
		return nil
	}
	g := others[0]
	step := h.work(disk.Choice{}).step(v1alpha1.ActionImportVolumeGroup, g.Name, h.work(disk.Choice{}).devicesOf(g), fmt.Sprintf(
		"Its disks were moved here from %s. The group becomes this node's. PersistentVolumes that name the other node have to be made anew.",
		systemid.Describe(g.SystemID)))
	step.UUID, step.From = g.UUID, g.SystemID
	step.Shown.Volumes = h.view.recordedIn(g.UUID)
	return []Step{step}
}

// recordedIn names the volumes of the Cluster that are recorded in a group, by node.
func (v *View) recordedIn(uuid string) []string {
	var out []string
	for _, node := range slices.Sorted(maps.Keys(v.seen.World.Volumes)) {
		for _, volume := range v.seen.World.Volumes[node] {
			if volume.GroupUUID == uuid {
				out = append(out, volume.String())
			}
		}
	}
	return out
}

// unimportable says why a group of another node cannot become this one's, even by approval; empty when it can.
func (h host) unimportable(g decide.Group) string {
	switch {
	case len(h.others()) > 1:
		return "disks of several groups are here"
	case len(h.groups) > 0 || len(h.lostGroups) > 0 || !h.awaits(g):
		return "the host has a group of its own, or had one"
	case g.Partial || g.Unknown:
		return "disks of it are missing"
	case slices.ContainsFunc(h.node.Devices, func(d decide.Device) bool { return g.Holds(d) && d.RefusedFor(v1alpha1.RefusalSharedDisk) }):
		return "another node sees its disks too, or did when its agent was last heard"
	}
	return h.stillThere(g)
}

// awaits reports whether nothing but this very group was ever recorded for the host.
func (h host) awaits(g decide.Group) bool {
	r := h.m.Record()
	other := func(uuid string) bool { return uuid != g.UUID }
	return !slices.ContainsFunc(h.recorded(), other) && (r == nil || len(r.Forming) == 0) &&
		!slices.ContainsFunc(h.m.Volumes, func(v backend.Volume) bool { return other(v.GroupUUID) })
}

// stillThere says why the node that a group names may use it; empty when it cannot: the node reports that the group is not there, or does not
// exist any more.
func (h host) stillThere(g decide.Group) string {
	for name, n := range h.view.seen.Nodes {
		if name == h.m.Node || systemid.Of(name) != g.SystemID {
			continue
		}
		kube, asked := h.view.seen.World.Nodes[name]
		switch {
		case asked && !kube.Exists && n.Agent == decide.AgentMissing:
			return ""
		case !n.Up():
			return "node " + name + " does not answer: start it without these disks, or delete its Node if it is gone for ever"
		case !Gone(n, &v1alpha1.MemberGroup{UUID: g.UUID}) || slices.ContainsFunc(n.OtherNodes, func(o decide.Group) bool { return o.UUID == g.UUID }):
			return "node " + name + " sees it too, or a disk there cannot be read"
		}
		return ""
	}
	return "nothing is known of the node that it names"
}

// isHere reports whether a group names this node in its metadata: it was made or stamped here, or imported by approval.
func (h host) isHere(g decide.Group) bool { return g.SystemID == systemid.Of(h.m.Node) }

// stamp returns the step that makes the recorded group name this node, when it names none: agents before system IDs made such groups. What is in
// it goes on meanwhile.
func (h host) stamp() []Step {
	r := h.m.Record()
	if r == nil || r.UUID == "" || len(h.groups) == 0 {
		return nil
	}
	g := h.groups[0]
	if g.UUID != r.UUID || !g.Unstamped || g.Partial || g.Unknown {
		return nil
	}
	return []Step{{
		Node: h.m.Node, Owner: h.view.own.spec.UID(), Does: v1alpha1.ActionStampVolumeGroup, Group: g.Name, UUID: g.UUID,
		Reason: "The volume group names no node. Once it names this one, no other changes it.",
	}}
}

// whereabouts says on which other host of the Cluster a group is seen; empty when on none.
func (h host) whereabouts(uuid string) string {
	for _, name := range h.view.seen.names() {
		n := h.view.seen.Nodes[name]
		seen := func(g decide.Group) bool { return uuid != "" && g.UUID == uuid }
		if name != h.m.Node && (slices.ContainsFunc(n.OtherNodes, seen) || slices.ContainsFunc(n.Groups, seen)) {
			return "; its disks are on node " + name
		}
	}
	return ""
}

// shared is the group with a disk that another node sees too. It serves what it holds, and does not grow until one node alone sees the disk.
func (h host) shared() backend.Finding {
	var parts []string
	for _, d := range h.node.Devices {
		if len(h.groups) > 0 && h.groups[0].Holds(d) && d.RefusedFor(v1alpha1.RefusalSharedDisk) {
			d.Refusals = slices.DeleteFunc(slices.Clone(d.Refusals), func(r v1alpha1.Refusal) bool { return r.Reason != v1alpha1.RefusalSharedDisk })
			parts = append(parts, d.Path+": "+disk.Why(d))
		}
	}
	if len(parts) == 0 {
		return backend.Finding{}
	}
	return bad(v1alpha1.ReasonSharedDisk, "volume group "+h.groups[0].Name+" is on a disk that another node sees too: "+strings.Join(parts, "; ")+
		"; it serves what it holds and does not grow until this node alone sees the disk")
}

// without leaves actions out of steps.
func without(steps []Step, actions ...string) []Step {
	return slices.DeleteFunc(steps, func(s Step) bool { return slices.Contains(actions, s.Does) })
}
