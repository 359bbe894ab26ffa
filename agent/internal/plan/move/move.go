// Package move decides how the extents of volumes leave a device of a group for other devices of it. Like package plan it is pure: no clock, no
// files, no processes, no network.
package move

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
)

// Spec is the device that is to hold no extents any more.
type Spec struct {
	Group, OwnerUID string
	// GroupUUID is that of the group that is meant; empty for any of that name.
	GroupUUID string
	Device    plan.Identity
	// Avoid are the paths of other devices of the group that nothing is moved to.
	Avoid []string
}

// Extents moves extents off a device, or finishes a move that was cut off.
type Extents struct {
	Group  string
	Device string
	// GroupDevices are all devices of the group, To those that extents are moved to.
	GroupDevices, To []string
	// Most is how many extents are moved at most.
	Most int64
	// GoOn is true for a move that was cut off.
	GoOn bool
	plan.Reason
}

// Touches the devices of the group.
func (s Extents) Touches() []string { return s.GroupDevices }

func (s Extents) String() string {
	if s.GoOn {
		return fmt.Sprintf("finish the move of extents off %s in group %s", s.Device, s.Group)
	}
	return fmt.Sprintf("move extents off %s in group %s", s.Device, s.Group)
}

// Drop removes the volume that a move left which was cut off after it had moved everything.
type Drop struct {
	Group, Name  string
	GroupDevices []string
	plan.Reason
}

// Touches the devices of the group.
func (s Drop) Touches() []string { return s.GroupDevices }

func (s Drop) String() string { return fmt.Sprintf("remove %s from group %s", s.Name, s.Group) }

// Next plans the next slice of extents to move off the device. A device that holds none needs nothing.
func Next(s plan.Snapshot, want Spec) (plan.Plan, error) {
	g, exists, err := plan.OwnGroup(s, plan.GroupSpec{Name: want.Group, OwnerUID: want.OwnerUID, UUID: want.GroupUUID}, plan.ErrNotOurs)
	if err != nil {
		return plan.Plan{}, err
	}
	d, seen := s.Find(want.Device.Path)
	i := slices.IndexFunc(g.PVs, func(pv plan.PV) bool { return seen && pv.Path != "" && pv.UUID == d.PVUUID })
	if !exists || i < 0 {
		return plan.Plan{}, fmt.Errorf("device %s in group %s: %w", want.Device.Path, want.Group, plan.ErrNotFound)
	}
	if err := plan.MatchHardware(d, want.Device); err != nil {
		return plan.Plan{}, err
	}
	from := g.PVs[i]
	if err := possible(g, from); err != nil {
		return plan.Plan{}, err
	}
	used := from.SizeBytes - from.FreeBytes
	if used == 0 {
		return plan.Plan{}, nil
	}
	step := Extents{
		Group: g.Name, Device: from.Path, GroupDevices: g.Ref().Devices, Most: max(1, plan.SliceBytes/max(g.ExtentBytes, 1)),
		GoOn: g.Moving != nil, Reason: "the device is given up",
	}
	room := int64(0)
	for _, pv := range g.PVs {
		if pv.UUID != from.UUID && !avoids(s, want, pv) {
			step.To = append(step.To, pv.Path)
			room += pv.FreeBytes
		}
	}
	if !step.GoOn && room < used {
		return plan.Plan{}, fmt.Errorf("device %s of group %s holds %d bytes, and the other devices have room for %d: %d are short: %w",
			from.Path, g.Name, used, room, used-room, plan.ErrNoRoom)
	}
	return plan.Plan{Steps: []plan.Step{step}}, nil
}

// avoids reports whether nothing is moved to a device of the group.
func avoids(s plan.Snapshot, want Spec, pv plan.PV) bool {
	return slices.ContainsFunc(want.Avoid, func(path string) bool {
		d, ok := s.Find(path)
		return path == pv.Path || ok && d.PVUUID == pv.UUID
	})
}

// possible refuses groups in which LVM moves nothing, or nothing safely.
func possible(g plan.Group, from plan.PV) error {
	switch {
	case g.Partial:
		return fmt.Errorf("move extents in group %s: %w; LVM moves none until it is back or forgotten", g.Name, plan.ErrPartial)
	case len(g.AllStale()) > 0:
		return fmt.Errorf("move extents in group %s: %w", g.Name, stale(g))
	case len(g.Pools) > 0:
		// Tried: a pool is not activated any more after a move of its extents was cut off.
		return fmt.Errorf("move extents in group %s: %w: a move that is cut off would make its volumes unusable", g.Name, plan.ErrThinPool)
	case g.MoveLeft() != "":
		return fmt.Errorf("move extents in group %s: %w", g.Name, g.Still())
	case g.Moving != nil && g.Moving.FromUUID != from.UUID:
		return fmt.Errorf("move extents off %s in group %s: %w", from.Path, g.Name, g.Still())
	}
	return nil
}

// stale is why nothing is moved under volumes that lead to a disk that dropped off. LVM gives the volumes that it moves new devices, open or not, and
// their users would go on beside writes that were lost.
func stale(g plan.Group) error {
	return fmt.Errorf("%w for %s, which lead to a disk that dropped off: until whoever has them open ends", plan.ErrPartial, strings.Join(g.AllStale(), ", "))
}

// Finish plans how a move ends that was cut off, whoever began it, unless the agent leaves it alone (Group.MoveLeft).
func Finish(s plan.Snapshot, groupUUID string) plan.Plan {
	for _, g := range s.Groups {
		if g.UUID == groupUUID && g.Usable() && g.Emptied != "" && g.Moving == nil && !g.Partial {
			return plan.Plan{Steps: []plan.Step{Drop{
				Group: g.Name, Name: g.Emptied, GroupDevices: g.Ref().Devices, Reason: "a move of extents was cut off after it had moved everything",
			}}}
		}
		if g.UUID != groupUUID || !g.Usable() || g.Moving == nil || g.MoveLeft() != "" {
			continue
		}
		step := Extents{
			Group: g.Name, Device: g.MovingFrom(), GroupDevices: g.Ref().Devices, GoOn: true, Reason: "a move of extents was cut off",
		}
		for _, pv := range g.PVs {
			if pv.Path != "" && pv.Path != step.Device {
				step.To = append(step.To, pv.Path)
			}
		}
		return plan.Plan{Steps: []plan.Step{step}}
	}
	return plan.Plan{}
}
