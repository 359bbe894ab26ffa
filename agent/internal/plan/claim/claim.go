// Package claim decides how a volume group comes to name this node, by the LVM system ID in its metadata, and how it is kept from what the host
// does at a boot. Like package plan it is pure: no clock, no files, no processes, no network.
package claim

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/systemid"
)

// Spec is the group that is to be this node's.
type Spec struct {
	Name, OwnerUID string
	// UUID of the group: two may have one name.
	UUID string
	// From is the system ID that the group carries now; empty for one that carries none.
	From string
	// FromOwner is the Cluster whose group it is now; empty unless it becomes another's, under OwnerUID.
	FromOwner string
}

// StampVG gives a group that names no node the system ID of this node.
type StampVG struct {
	Name         string
	GroupDevices []string
	plan.Reason
}

// ImportVG gives a group of another node, From, the system ID of this node.
type ImportVG struct {
	Name, From   string
	GroupDevices []string
	plan.Reason
}

// TakeOverVG makes a group of an owner that is gone, From, that of another one, To. A tag keeps that it was the former's.
type TakeOverVG struct {
	Name, From, To string
	GroupDevices   []string
	plan.Reason
}

// Touches the devices of the group.
func (s TakeOverVG) Touches() []string { return s.GroupDevices }

func (s TakeOverVG) String() string {
	return fmt.Sprintf("give group %s from owner %s to owner %s", s.Name, s.From, s.To)
}

// StopAutoactivation keeps the host's own commands from activating what is in a group when they see its devices, as they do at a boot.
type StopAutoactivation struct {
	Name         string
	GroupDevices []string
	plan.Reason
}

// Touches the devices of the group.
func (s StopAutoactivation) Touches() []string { return s.GroupDevices }

func (s StopAutoactivation) String() string {
	return fmt.Sprintf("stop the autoactivation of group %s", s.Name)
}

// Touches the devices of the group.
func (s StampVG) Touches() []string { return s.GroupDevices }

// Touches the devices of the group.
func (s ImportVG) Touches() []string { return s.GroupDevices }

func (s StampVG) String() string { return fmt.Sprintf("write the system ID into group %s", s.Name) }

func (s ImportVG) String() string {
	return fmt.Sprintf("import group %s from %s", s.Name, systemid.Describe(s.From))
}

// Group plans how a group comes to name this node. What is in it stays as it is, and what is active stays active. A group that names
// this node already needs nothing.
func Group(s plan.Snapshot, want Spec) (plan.Plan, error) {
	i := slices.IndexFunc(s.Groups, func(g plan.Group) bool { return g.UUID == want.UUID })
	if i < 0 {
		if err := s.Sure(want.Name, want.OwnerUID); err != nil {
			return plan.Plan{}, err
		}
		return plan.Plan{}, fmt.Errorf("group %s (UUID %s): %w", want.Name, want.UUID, plan.ErrNotFound)
	}
	g := s.Groups[i]
	if want.FromOwner != "" {
		return takeOver(s, g, want)
	}
	switch {
	case g.Name != want.Name || g.OwnerUID != want.OwnerUID:
		return plan.Plan{}, fmt.Errorf("the group with UUID %s is %s of the Cluster with UID %s: %w", g.UUID, g.Name, g.OwnerUID, plan.ErrNotOurs)
	case g.Access == plan.AccessOwn:
		return plan.Plan{}, nil
	case g.SystemID != want.From:
		return plan.Plan{}, fmt.Errorf("group %s has the system ID %q, not %q: %w", g.Name, g.SystemID, want.From, plan.ErrOtherNode)
	case g.Partial:
		return plan.Plan{}, fmt.Errorf("group %s: %w; LVM changes no group that is not complete", g.Name, plan.ErrPartial)
	case g.Access == plan.AccessNone:
		return plan.Plan{Steps: []plan.Step{StampVG{Name: g.Name, GroupDevices: g.Ref().Devices, Reason: "the group names no node, and is recorded for this one"}}}, nil
	}
	if err := mayImport(s, g); err != nil {
		return plan.Plan{}, err
	}
	reason := plan.Reason(fmt.Sprintf("its disks were moved here from %s, and the caller says that this was approved", systemid.Describe(want.From)))
	return plan.Plan{Steps: []plan.Step{ImportVG{Name: g.Name, From: want.From, GroupDevices: g.Ref().Devices, Reason: reason}}}, nil
}

// takeOver plans how a group of this node becomes another owner's. It is not the agent that knows that the former is gone.
func takeOver(s plan.Snapshot, g plan.Group, want Spec) (plan.Plan, error) {
	switch {
	case g.Name != want.Name, g.OwnerUID != want.FromOwner && g.OwnerUID != want.OwnerUID:
		return plan.Plan{}, fmt.Errorf("the group with UUID %s is %s of the Cluster with UID %s: %w", g.UUID, g.Name, g.OwnerUID, plan.ErrNotOurs)
	case g.Access != plan.AccessOwn || g.SystemID != want.From:
		return plan.Plan{}, fmt.Errorf("group %s has the system ID %q: %w; only a group of this node becomes another owner's", g.Name, g.SystemID, plan.ErrOtherNode)
	case g.OwnerUID == want.OwnerUID && slices.Contains(g.OwnersBefore, want.FromOwner):
		return plan.Plan{}, nil
	case g.OwnerUID == want.OwnerUID:
		return plan.Plan{}, fmt.Errorf("group %s was never that of the Cluster with UID %s: %w", g.Name, want.FromOwner, plan.ErrNotOurs)
	case g.Partial:
		return plan.Plan{}, fmt.Errorf("group %s: %w; LVM changes no group that is not complete", g.Name, plan.ErrPartial)
	case g.Moving != nil:
		return plan.Plan{}, fmt.Errorf("give group %s to another owner: %w", g.Name, g.Still())
	}
	if err := s.Sure(g.Name, g.OwnerUID); err != nil {
		return plan.Plan{}, err
	}
	reason := plan.Reason(fmt.Sprintf("the Cluster with UID %s does not exist any more, and the caller says that this was approved", want.FromOwner))
	return plan.Plan{Steps: []plan.Step{TakeOverVG{Name: g.Name, From: want.FromOwner, To: want.OwnerUID, GroupDevices: g.Ref().Devices, Reason: reason}}}, nil
}

// Keep plans that nobody but the agent activates what is in a group of this node: it looks at the metadata of a thin pool before, and leaves alone what
// is being zeroed, moved or repaired. LVM changes no group that is not complete, and one with a move under way is left alone. So is one with an active
// volume of somebody else's: the host may need that at its next boot, for its own mounts or to swap.
func Keep(s plan.Snapshot, groupUUID string) plan.Plan {
	var out plan.Plan
	for _, g := range s.Groups {
		if g.UUID == groupUUID && g.Access == plan.AccessOwn && g.Autoactivated && !g.Partial && g.Moving == nil && !usedByOthers(g) {
			out.Steps = append(out.Steps, StopAutoactivation{
				Name: g.Name, GroupDevices: g.Ref().Devices, Reason: "the host activates what is in it whenever it sees its devices",
			})
		}
	}
	return out
}

// usedByOthers reports whether a volume is active that is not ours. What LVM has kept of a pool of ours is nobody's.
func usedByOthers(g plan.Group) bool {
	return slices.ContainsFunc(g.LogicalVolumes, func(v plan.Volume) bool {
		kept := slices.ContainsFunc(g.Pools, func(p plan.Pool) bool { return p.Ours && slices.Contains(p.Kept, v.Name) })
		return v.Active && v.ID == "" && v.TailOf == "" && !kept
	})
}

// mayImport refuses a group whose name another group of this node has: they would have to share their names below /dev.
func mayImport(s plan.Snapshot, g plan.Group) error {
	taken := slices.Contains(s.ForeignGroups, g.Name) || slices.ContainsFunc(s.Groups, func(o plan.Group) bool {
		return o.Name == g.Name && o.UUID != g.UUID && o.Usable()
	})
	if taken {
		return fmt.Errorf("import group %s: the node has another group of this name: %w", g.Name, plan.ErrAlreadyExists)
	}
	return s.Sure(g.Name, g.OwnerUID)
}
