package lvm

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// maxEarlier is the number of groups that a record holds which were given up.
const maxEarlier = 64

// adopts returns the step that makes the one group that is here the recorded one, in place of groups that are not. It waits for approval, and
// changes nothing but the record: what is on record decides which group grows, so nobody but a person knows that it is the older one.
func (h host) adopts() []Step {
	if h.agrees() || h.unadoptable() != "" {
		return nil
	}
	g := h.groups[0]
	step := h.work(disk.Choice{}).step(v1alpha1.ActionAdoptVolumeGroup, g.Name, h.work(disk.Choice{}).devicesOf(g), h.adoptionReason(g))
	step.Adoption = &Adoption{Member: h.m.Object.Name, Node: h.m.Node, UID: string(h.m.Object.UID), Replaces: h.unseen()}
	for _, name := range h.called(g, g.Volumes) {
		step.Shown.Volumes = append(step.Shown.Volumes, "kept: "+name)
	}
	var lost []string
	for _, v := range h.m.Volumes {
		if slices.Contains(step.Adoption.Replaces, v.GroupUUID) {
			lost, step.Adoption.Lost = append(lost, "lost: "+v.String()), append(step.Adoption.Lost, v.Handle)
		}
	}
	slices.Sort(step.Adoption.Lost)
	// What is lost comes first: a storage shows the first ones only.
	slices.Sort(lost)
	step.Shown.Volumes = append(lost, step.Shown.Volumes...)
	return []Step{step}
}

// agrees reports whether the record needs nothing of what adoption does: it is seen, or it is empty and nothing tells of another group.
func (h host) agrees() bool {
	r := h.m.Record()
	other := len(h.recorded()) == 0 && r != nil && len(r.Forming) > 0 && len(h.groups) == 1 && !h.announcedIn(h.groups[0], r.Forming)
	return len(h.unseen()) == 0 && !other
}

// unseen returns the UUIDs of the recorded groups that are not seen; ordered.
func (h host) unseen() []string {
	out := slices.DeleteFunc(h.recorded(), func(uuid string) bool { return h.seen(uuid) >= 0 })
	slices.Sort(out)
	return out
}

func (h host) adoptionReason(g decide.Group) string {
	var before []string
	for _, uuid := range h.unseen() {
		before = append(before, call(h.recordedName(uuid), uuid))
	}
	if len(before) == 0 {
		return fmt.Sprintf("A volume group that was being made is on record, and %s is here instead. The record will name it; no disk is changed.", call(g.Name, g.UUID))
	}
	return fmt.Sprintf("Volume group %s is on record and not here, and %s is.%s The record will name the latter; no disk is changed. Volumes of the former are given up.",
		strings.Join(before, " and "), call(g.Name, g.UUID), h.unasked())
}

// unasked names the other nodes that do not answer, as a sentence with a blank before it; empty when all do. The disks of a recorded group may be there: only
// what these nodes reported last is known.
func (h host) unasked() string {
	var silent []string
	for _, name := range h.view.seen.names() {
		if n := h.view.seen.Nodes[name]; name != h.m.Node && !n.Up() {
			silent = append(silent, name)
		}
	}
	if len(silent) == 0 {
		return ""
	}
	return " Its disks may be in a node that does not answer now: " + backend.Shorten(silent, 5) + "."
}

// unadoptable says why the group that is here cannot become the recorded one, even by approval; empty when it can. It has to be the only
// one, whole and this node's for sure, and the recorded one must be nowhere that can be seen, and not hidden on this host.
func (h host) unadoptable() string {
	switch {
	case h.unnamed() != "":
		return h.unnamed()
	case len(h.groups) != 1 || len(h.lostGroups) > 0 || len(h.others()) > 0:
		return "not exactly one volume group of this Cluster is here"
	case h.unfit(h.groups[0]) != "":
		return h.unfit(h.groups[0])
	case !h.known() || len(h.mayHideOn(h.groups[0])) > 0 || !h.scattered().IsZero():
		return "the recorded group may be on a disk of this host that cannot be read, or is not what it was"
	}
	for _, uuid := range h.unseen() {
		if at := h.whereabouts(uuid); at != "" {
			return strings.TrimPrefix(at, "; ")
		}
	}
	if r := h.m.Record(); r != nil && len(r.Earlier)+len(h.unseen()) > maxEarlier {
		return "too many groups were given up for this member already"
	}
	return ""
}

// unnamed says why no group is recorded for the host by approval; empty when one can be.
func (h host) unnamed() string {
	switch {
	case h.m.Object == nil:
		return "its Member does not exist yet"
	case h.m.Lost:
		return "the member is declared lost"
	}
	return ""
}

// unfit says why a group on the host is not for sure this node's, and whole, or why others may be hidden there; empty when it is.
func (h host) unfit(g decide.Group) string {
	shared := func(d decide.Device) bool { return g.Holds(d) && d.RefusedFor(v1alpha1.RefusalSharedDisk) }
	switch {
	case g.Partial || g.Unknown:
		return "a disk of the group that is here is missing, or LVM cannot report it"
	case !h.isHere(g):
		return "the group that is here does not name this node"
	case slices.ContainsFunc(h.node.Devices, shared):
		return "another node sees a disk of the group that is here, or did when its agent was last heard"
	}
	return doubt(h.node)
}

// wayOut says what a person can do about a group that is here in place of the recorded one; empty when there is none here.
func (h host) wayOut() string {
	if len(h.groups) == 0 || h.agrees() {
		return ""
	}
	if why := h.unadoptable(); why != "" {
		return "; it cannot be adopted in its place: " + why
	}
	return "." + h.unasked() + " If the recorded one is gone for ever, approve the plan with " + v1alpha1.ActionAdoptVolumeGroup + ": the record names this one then"
}

// living reports whether a storage of that UID exists, of whatever kind. An owner that nobody knows may be any.
func (v *View) living(uid string) bool {
	return uid == "" || uid == v.own.spec.UID() || slices.ContainsFunc(v.seen.World.Others, func(o v1alpha1.Storage) bool { return string(o.GetUID()) == uid })
}

// earlierSelf reports whether volumes of the Cluster say that they were made under another UID: objects that are restored have new ones.
func (v *View) earlierSelf(uid string) bool {
	for _, at := range v.seen.World.Volumes {
		if slices.ContainsFunc(at, func(o backend.Volume) bool { return o.Attributes[v1alpha1.ParameterCluster] == uid }) {
			return true
		}
	}
	return false
}

// orphaned returns the groups on the host whose owner does not exist any more, and that were the Cluster's under an earlier UID: they are on record
// for the host, or volumes of the Cluster name their owner.
func (h host) orphaned() []decide.Group {
	recorded := h.recorded()
	return slices.DeleteFunc(slices.Clone(h.node.Groups), func(g decide.Group) bool {
		mine := slices.Contains(recorded, g.UUID) || h.view.earlierSelf(g.OwnerUID)
		return !mine || h.view.living(g.OwnerUID) || slices.Contains(h.view.own.spec.Lost, g.UUID)
	})
}

// inherits returns the step that makes a group of an owner that is gone the Cluster's. It waits for approval.
func (h host) inherits() []Step {
	orphaned := h.orphaned()
	if len(orphaned) == 0 || h.uninheritable(orphaned[0]) != "" {
		return nil
	}
	g := orphaned[0]
	step := h.work(disk.Choice{}).step(v1alpha1.ActionImportVolumeGroup, g.Name, h.work(disk.Choice{}).devicesOf(g), fmt.Sprintf(
		"It is that of the Cluster with UID %s, which does not exist any more. It becomes this Cluster's; what is in it stays as it is.", g.OwnerUID))
	step.UUID, step.From, step.FromOwner = g.UUID, g.SystemID, g.OwnerUID
	step.Adoption = &Adoption{Member: h.m.Object.Name, Node: h.m.Node, UID: string(h.m.Object.UID)}
	step.Shown.Volumes = h.view.recordedIn(g.UUID)
	return []Step{step}
}

// uninheritable says why a group of an owner that is gone cannot become the Cluster's, even by approval; empty when it can. It has to be this node's
// for sure, whole, and the only one that the host may be meant to have.
func (h host) uninheritable(g decide.Group) string {
	switch {
	case h.unnamed() != "":
		return h.unnamed()
	case len(h.orphaned()) > 1 || len(h.others()) > 0:
		return "disks of several groups are here"
	case len(h.groups) > 0 || len(h.lostGroups) > 0 || !h.awaits(g):
		return "the host has a group of its own, or had one, or a volume of which nobody knows where it is"
	case h.unfit(g) != "":
		return h.unfit(g)
	}
	for _, m := range slices.Concat(h.view.seen.World.Members, h.view.seen.World.OtherMembers) {
		if r := m.Spec.Group; r != nil && r.UUID == g.UUID && m.UID != h.m.Object.UID {
			return fmt.Sprintf("member %s of the %s with UID %s has it on record", m.Name, m.Spec.Of.Kind, m.Spec.Of.UID)
		}
	}
	return ""
}

// bequest says what a person can do about a group whose owner is gone; empty when there is none that was the Cluster's.
func (h host) bequest() string {
	orphaned := h.orphaned()
	if len(orphaned) == 0 {
		return ""
	}
	g := orphaned[0]
	if why := h.uninheritable(g); why != "" {
		return fmt.Sprintf("; volume group %s cannot be imported: %s", call(g.Name, g.UUID), why)
	}
	return fmt.Sprintf(". Approve the plan with %s, and volume group %s becomes this Cluster's", v1alpha1.ActionImportVolumeGroup, call(g.Name, g.UUID))
}

// beside is the host with a group of an owner that is gone. It gets none beside it: that one may be what it is to have.
func (h host) beside() backend.Finding {
	return bad(v1alpha1.ReasonVolumeGroupLost, fmt.Sprintf("%s was this Cluster's under an earlier UID, and no volume group is made beside it",
		list(h.orphaned()))+h.strangers()+h.bequest())
}
