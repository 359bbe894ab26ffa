package volume

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
)

// ForgetSpec is what a group is to forget: the physical volumes that are missing, by UUID, and the volumes that may be lost with them.
type ForgetSpec struct {
	Group, OwnerUID string
	// GroupUUID is that of the group that is meant; empty for any of that name.
	GroupUUID    string
	PVs, Volumes []string
}

// Forget plans how a group goes on without its missing devices: the volumes that lack a part are removed, each by name and tag, then the group
// drops the devices. It refuses when other devices are missing than the wanted ones, or when a volume would be lost that is not named.
// Killed in between, fewer volumes are left; nothing is left to do once the devices are forgotten.
func Forget(s plan.Snapshot, want ForgetSpec, p plan.Policy) (plan.Plan, error) {
	g, err := groupOf(s, plan.GroupSpec{Name: want.Group, OwnerUID: want.OwnerUID, UUID: want.GroupUUID})
	if err != nil {
		return plan.Plan{}, err
	}
	known := func(pv plan.PV) bool { return slices.Contains(want.PVs, pv.UUID) }
	if !slices.ContainsFunc(g.PVs, known) {
		return plan.Plan{}, nil
	}
	for _, pv := range g.PVs {
		if missing := pv.Path == "" || pv.Returned; missing != known(pv) {
			return plan.Plan{}, fmt.Errorf("group %s: physical volume %s: missing is %t, and to be forgotten %t: %w",
				g.Name, pv.UUID, missing, known(pv), plan.ErrMismatch)
		}
	}
	if len(g.Lost()) > 0 {
		// LVM calls a volume lost that is only being moved to the device, and all of it may be elsewhere.
		if err := g.still(); err != nil {
			return plan.Plan{}, err
		}
	}
	if err := g.MayForget(s, p); err != nil {
		return plan.Plan{}, err
	}
	out, err := g.giveUp(want.Volumes)
	if err != nil {
		return plan.Plan{}, err
	}
	out.Steps = append(out.Steps, plan.ReduceMissing{
		Name: g.Name, GroupDevices: g.Ref().Devices, Reason: "devices are missing for good, and what was on them is given up",
	})
	return out, nil
}

// giveUp removes the volumes that lack a part, all of which have to be named.
func (g group) giveUp(named []string) (plan.Plan, error) {
	var out plan.Plan
	lost := g.Lost()
	for _, name := range lost {
		v, ok := g.Volume(name)
		switch {
		case !slices.Contains(named, name):
			return plan.Plan{}, fmt.Errorf("group %s: volume %s lacks a part and is not among those to give up (%s): %w",
				g.Name, name, strings.Join(named, ", "), plan.ErrMismatch)
		case !ok || v.Pool != "":
			return plan.Plan{}, fmt.Errorf("group %s: %s is a thin pool, or in one, that lacks a part: %w; LVM drops such a pool by hand only",
				g.Name, name, plan.ErrPartial)
		case v.ID == "" && v.TailOf == "":
			return plan.Plan{}, fmt.Errorf("group %s: volume %s lacks a part and carries no id of ours: %w", g.Name, name, plan.ErrNotOurs)
		case v.Open:
			return plan.Plan{}, fmt.Errorf("group %s: volume %s lacks a part and is open: %w; end the pod that uses it", g.Name, name, plan.ErrInUse)
		}
		out.Steps = append(out.Steps, RemoveLV{
			Group: g.Ref(), Name: name, Tag: ownTag(v), Reason: "a part of the volume was on a device that is given up",
		})
	}
	if len(lost) > 0 {
		return out, nil
	}
	for _, pv := range g.PVs {
		if pv.Path == "" && pv.FreeBytes != pv.SizeBytes {
			return plan.Plan{}, fmt.Errorf("group %s: physical volume %s holds extents of a hidden logical volume: %w", g.Name, pv.UUID, plan.ErrHoldsData)
		}
	}
	return out, nil
}
