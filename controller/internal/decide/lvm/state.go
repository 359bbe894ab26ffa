package lvm

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/volumeid"
)

// Standing is how a host of a Cluster stands when a volume is to be placed.
type Standing struct {
	// State of the member; empty when the host is no member.
	State nodestate.State
	// Group is the recorded group; nil when the host does not report it, and did not when it was last seen.
	Group *decide.Group
	// Problem says why no new volume is made on the host; empty when one may be made.
	Problem string
	// Unknown is true when the agent answers, and cannot tell what is in the group.
	Unknown bool
	// Soon is true when the group is seen and only waits to be recorded, as far as the reader knows: a moment later volumes may be made.
	Soon bool
}

// State decides whether a host takes new volumes. m is its Member, nil when there is none, and maintenance is what its StorageNode asks
// for. No volume is made before the recorded group is the reported one, or where one of volumes has to be in that group and is not.
func State(s Spec, n decide.Node, m *v1alpha1.Member, maintenance bool, volumes []backend.Volume) Standing {
	if m == nil || !s.Owner.Owns(m) {
		return Standing{Problem: "it is not a member of the Cluster"}
	}
	own := ownGroups(s, n)
	leaves := departs(m) || s.dropped(m.Spec.Node)
	quiesce := maintenance || m.Spec.Maintenance || slices.Contains(s.Common.Maintenance, m.Spec.Node)
	facts := backend.Facts{Up: n.Up(), TooEarly: n.Agent == decide.AgentConnecting, Data: data(s, n, own)}
	flags := backend.FlagsOf(m, facts, quiesce || leaves, 0)
	if s.Deleting || backend.Lost(m) {
		// The Member is going to be deleted.
		flags = flags.Condemn()
	}
	out := Standing{State: nodestate.Compute(flags)}
	out.find(m.Spec.Group, own)
	unsure := out.unsure(m.Spec.Group, n, unknown(s, n))
	out.Unknown = n.Up() && (n.LVMError != "" || unsure != "")
	switch {
	case backend.Lost(m):
		out.Problem = "it is declared lost"
	case leaves && m.DeletionTimestamp.IsZero():
		out.Problem = "it is leaving the Cluster"
	default:
		out.Problem = out.problem(n, unsure, len(own))
		if out.Problem == "" {
			out.Problem = Gap(n.Name, *out.Group, volumes)
		}
	}
	return out
}

// find looks for the recorded group among those with the tag of the Cluster.
func (s *Standing) find(r *v1alpha1.MemberGroup, own []decide.Group) {
	if r == nil || r.UUID == "" {
		s.Soon = s.State == nodestate.Online && len(own) == 1
		return
	}
	if i := slices.IndexFunc(own, func(g decide.Group) bool { return g.UUID == r.UUID }); i >= 0 {
		s.Group = &own[i]
	}
}

// unsure says why it is not known what is in the recorded group: LVM cannot report it, or it is not seen and may be on a disk that cannot be
// read. A volume that was made there by a call that was cut off is there still. It is empty when there is no such doubt.
func (s Standing) unsure(recorded *v1alpha1.MemberGroup, n decide.Node, unreported []decide.UnknownGroup) string {
	had := recorded != nil && recorded.UUID != ""
	switch {
	case s.Group != nil && !s.Group.Unknown:
		return ""
	case len(unreported) > 0:
		return decide.Unreported(unreported)
	case s.Group == nil && had && n.Up():
		if why := doubt(n); why != "" {
			return "its volume group is not seen: " + why
		}
	}
	return ""
}

// dropped reports whether a host was taken off the list of hosts. Its Member says so a moment later.
func (s Spec) dropped(node v1alpha1.HostName) bool {
	return s.Common.Selector == nil && !slices.Contains(s.Common.Hosts, node)
}

// problem says why no volume is made. unsure says why it is not known what is in the recorded group, own is the number of groups with the tag
// of the Cluster.
func (s Standing) problem(n decide.Node, unsure string, own int) string {
	switch {
	case n.Agent == decide.AgentConnecting:
		return "its agent is not connected yet"
	case s.State != nodestate.Online:
		text := "it is " + string(s.State)
		if p := strings.TrimSuffix(n.Problem, "."); p != "" {
			text += " (" + p + ")"
		}
		return text
	case n.LVMError != "":
		return "LVM cannot be run: " + n.LVMError
	case s.Unknown:
		return unsure
	case s.Group == nil && own == 0:
		return "it has no volume group of the Cluster"
	case s.Soon:
		return "its volume group is not on record yet"
	case s.Group == nil:
		return "the volume group that it has is not the recorded one"
	case own > 1:
		return fmt.Sprintf("it has %d volume groups of the Cluster", own)
	case s.Group.Partial:
		return "a disk of its volume group is missing, and LVM makes nothing there"
	case s.Group.Moving != nil && s.Group.Moving.Left != "":
		return "a move of extents in its volume group is not finished, and LVM makes nothing there meanwhile"
	}
	return ""
}

// Gap says which volumes have to be in a group of a node and have no logical volume there; empty when all have one. LVM can restore what
// was removed by mistake for as long as its space is not used again, so nothing that takes space is done in such a group. A volume of which
// no group was recorded is in the group that its handle names.
func Gap(node string, g decide.Group, volumes []backend.Volume) string {
	var gone []string
	for _, v := range volumes {
		id, err := volumeid.Parse(v.Handle)
		mine := v.GroupUUID == g.UUID
		if v.GroupUUID == "" {
			mine = id.Group == g.Name
		}
		if err == nil && v.Expected && mine && id.Node == node && !slices.Contains(g.Volumes, id.Name) {
			gone = append(gone, v.String())
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "no logical volume exists of " + backend.Shorten(gone, 10) + ", and its space is kept until it is back, or nothing needs it any more"
}

// ownGroups returns the groups with the tag of the Cluster on a host, without those of members that were declared lost.
func ownGroups(s Spec, n decide.Node) []decide.Group {
	return slices.DeleteFunc(n.GroupsOf(s.UID()), func(g decide.Group) bool { return slices.Contains(s.Lost, g.UUID) })
}

// Gone reports whether a person's word that a host is lost can be true by what its agent says: the agent is silent, or reports without a
// doubt that the recorded group is not there. It is too early to say while the agent connects.
func Gone(n decide.Node, recorded *v1alpha1.MemberGroup) bool {
	switch n.Agent {
	case decide.AgentMissing, decide.AgentUnreachable:
		return true
	case decide.AgentUp:
		seen := func(g decide.Group) bool { return recorded != nil && g.UUID == recorded.UUID }
		return doubt(n) == "" && !slices.ContainsFunc(n.Groups, seen)
	}
	return false
}

// doubt says why a group may be on a node whose agent answers even if it is not among the reported ones; empty when it cannot be.
func doubt(n decide.Node) string {
	if n.LVMError != "" {
		return "LVM cannot be run: " + n.LVMError
	}
	if len(n.Unknown) > 0 {
		return decide.Unreported(n.Unknown)
	}
	hiding := slices.Clone(n.Hiding)
	for _, d := range n.Devices {
		// Devices and groups are reported one after the other: a device may name a group that is reported in a moment.
		unlisted := d.OwnerUID != "" && d.VolumeGroup != "" && !n.Lists(d)
		if (unlisted || mayHide(d)) && !slices.Contains(hiding, d.Path) {
			hiding = append(hiding, d.Path)
		}
	}
	if len(hiding) == 0 {
		return ""
	}
	return "it may be on what cannot be read: " + backend.Shorten(hiding, 10)
}

// mayHide reports whether a device may carry a part of a group that is not seen. Groups are made on whole disks only.
func mayHide(d decide.Device) bool {
	return d.RefusedFor(v1alpha1.RefusalUnreadable) && !d.RefusedFor(v1alpha1.RefusalVirtual) &&
		!d.RefusedFor(v1alpha1.RefusalPartition) && !d.RefusedFor(v1alpha1.RefusalRemovable)
}

// damaged is a thin pool of which the metadata is damaged. It names the volumes in it: none of them can be used.
func (h host) damaged() backend.Finding {
	for _, g := range h.groups {
		for _, p := range g.Pools {
			if p.Damage == "" {
				continue
			}
			text := "no volume is in it"
			if len(p.DamagedVolumes) > 0 {
				text = "volumes in it, which cannot be used: " + backend.Shorten(h.called(g, p.DamagedVolumes), 10)
			}
			way, byHand := "", ""
			if p.RepairDigest != "" {
				way, byHand = "Stop its pods, and approve the plan with "+v1alpha1.ActionRepairThinPool+"; ", " by hand"
			}
			return bad(v1alpha1.ReasonThinPoolDamaged, fmt.Sprintf(
				"thin pool %s/%s is damaged: %s; %s. Nothing is put into it. %sdocs/thin-pools.md says how it is repaired%s", g.Name, p.Name, p.Damage, text, way, byHand))
		}
	}
	return backend.Finding{}
}

// repair returns the steps that repair damaged thin pools. They wait for approval. An agent that was started anew does not know yet whether a pool
// is damaged that is not active: what was planned until then stays planned, so that an approved repair goes on.
func (h host) repair() []Step {
	if len(h.groups) == 0 {
		return nil
	}
	var out []Step
	g := h.groups[0]
	for _, p := range g.Pools {
		if p.RepairDigest == "" || p.Damage == "" && !p.UsageUnknown {
			continue
		}
		step := h.work(disk.Choice{}).step(v1alpha1.ActionRepairThinPool, g.Name, nil, fmt.Sprintf(
			"What cannot be found of a volume reads as zeroes afterwards, and what is found may be of an earlier moment; the old metadata is kept. Nothing changes while a pod uses a volume, or unless all %d are found.",
			len(p.DamagedVolumes)))
		step.Damaged = Damaged{Name: p.Name, Digest: p.RepairDigest, SizeBytes: p.SizeBytes}
		step.Shown.Volumes = h.called(g, p.DamagedVolumes)
		if p.Damage != "" || h.planned(step) {
			out = append(out, step)
		}
	}
	return out
}

// planned reports whether the status of the Member shows a step.
func (h host) planned(s Step) bool {
	if h.m.Object == nil || h.m.Object.Status.Plan == nil {
		return false
	}
	return slices.ContainsFunc(h.m.Object.Status.Plan.Steps, func(p v1alpha1.PlanStep) bool { return p.Digest == s.Digest() })
}
