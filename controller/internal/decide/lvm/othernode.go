package lvm

import (
	"fmt"
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
	for _, g := range h.others() {
		return bad(v1alpha1.ReasonOtherNode, fmt.Sprintf(
			"volume group %s on disks of this host is that of %s: nothing is taken from it and nothing in it is used here; bring its disks back there",
			call(g.Name, g.UUID), systemid.Describe(g.SystemID)))
	}
	return backend.Finding{}
}

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
