package node

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"quarry.storage/quarry/agent/internal/node/flight"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/systemid"
)

// looks are the reports on one group, by its name, that calls on its volumes share.
type looks struct {
	mu     sync.Mutex
	groups map[string]*flight.Shared[plan.Snapshot]
}

// LookupVolume returns what is recorded of a volume of the node, ours or not. What is remembered of a volume of ours that is in use already
// is enough, so that a node that starts with many volumes asks LVM no more than once: nothing that is recorded of such a volume says that
// something may be written over. All else is read afresh. It returns plan.ErrNotFound when no group of ours on the node holds the volume,
// plan.ErrUnsure when one that is unknown, or on a disk that cannot be read, may, plan.ErrUntold when two do, and plan.ErrOtherNode when one of another
// node does. This and the following methods are for the CSI node service of the same process.
//
// The caller knows the volume by its name, and by the owner and the UUID of its group as far as they are recorded: plan.ErrOtherGroup says that
// the only volume of that name is in another group than that, or that there is none and the recorded group is not seen.
func (e *Engine) LookupVolume(ctx context.Context, want volume.Spec) (plan.Volume, error) {
	group := want.Group
	if err := volume.CheckNames(group, want.Name); err != nil {
		return plan.Volume{}, err
	}
	seen, err := e.hub.current(ctx)
	if err != nil {
		return plan.Volume{}, err
	}
	if v, err := lookup(seen, want); err == nil && settledVolume(v) {
		return v, nil
	}
	if seen, err = e.look(ctx, seen, group); err != nil {
		return plan.Volume{}, err
	}
	v, err := lookup(seen, want)
	return v, e.sure(seen, want, err)
}

// settledVolume reports whether a volume is ours, known by the UUID that LVM gave it, and needs nothing but to be activated.
func settledVolume(v plan.Volume) bool {
	return v.ID != "" && v.UUID != "" && !v.New && !v.Removing && !v.Snapshot && !v.Suspended && !v.Stale && v.Health == ""
}

// look observes the groups of a name afresh. Calls at the same time share one report.
func (e *Engine) look(ctx context.Context, seen plan.Snapshot, group string) (plan.Snapshot, error) {
	if !slices.ContainsFunc(seen.Groups, func(g plan.Group) bool { return g.Name == group }) {
		return e.hub.observe(ctx)
	}
	return e.looks.of(group, func(ctx context.Context) (plan.Snapshot, error) {
		seen, err := e.hub.current(ctx)
		if err != nil {
			return plan.Snapshot{}, err
		}
		return e.refresh(ctx, seen, group)
	}).Get(ctx)
}

func (l *looks) of(group string, observe func(context.Context) (plan.Snapshot, error)) *flight.Shared[plan.Snapshot] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups == nil {
		l.groups = map[string]*flight.Shared[plan.Snapshot]{}
	}
	if l.groups[group] == nil {
		l.groups[group] = &flight.Shared[plan.Snapshot]{Observe: observe}
	}
	return l.groups[group]
}

// lookup finds the one volume of that name in the groups of that name, and refuses it where its group is not the one that is recorded.
func lookup(seen plan.Snapshot, want volume.Spec) (plan.Volume, error) {
	group, name := want.Group, want.Name
	var found []plan.Volume
	var holder plan.Group
	other := ""
	for _, g := range seen.Groups {
		v, ok := g.Volume(name)
		switch {
		case !ok || g.Name != group:
		case !g.Usable():
			other = g.SystemID
		default:
			// A volume whose pool holds back its writers holds them back too.
			p, _ := g.Pool(v.Pool)
			v.Suspended = v.Suspended || p.Suspended
			found, holder = append(found, v), g
		}
	}
	switch len(found) {
	case 1:
		return found[0], recordedGroup(holder, want)
	case 0:
		if other != "" {
			return plan.Volume{}, fmt.Errorf("volume %s in group %s of %s: %w", name, group, systemid.Describe(other), plan.ErrOtherNode)
		}
	default:
		return plan.Volume{}, fmt.Errorf("volume %s is in %d groups of the name %s, and which one is meant %w; take the disks of the copy out of the node",
			name, len(found), group, plan.ErrUntold)
	}
	if err := seen.Nowhere(group, ""); err != nil {
		return plan.Volume{}, err
	}
	recorded := func(g plan.Group) bool { return g.Name == group && g.UUID == want.GroupUUID }
	if want.GroupUUID != "" && !slices.ContainsFunc(seen.Groups, recorded) {
		return plan.Volume{}, fmt.Errorf("volume %s is recorded in group %s with UUID %s, which is not seen on this node: %w; its disks may be away, or it was renamed",
			name, group, want.GroupUUID, plan.ErrOtherGroup)
	}
	return plan.Volume{}, fmt.Errorf("volume %s in group %s: %w", name, group, plan.ErrNotFound)
}

// recordedGroup refuses, with plan.ErrOtherGroup, a group that has another UUID or owner than is recorded of its volume. What is not recorded may
// be any: volumes of before the record have none. A group that became another owner's by approval keeps whose it was, and what is recorded under that owner
// is served as before.
func recordedGroup(g plan.Group, want volume.Spec) error {
	if want.OwnerUID != "" && want.OwnerUID != g.OwnerUID && !slices.Contains(g.OwnersBefore, want.OwnerUID) {
		return fmt.Errorf("volume %s is recorded in a group of the Cluster with UID %s, and group %s is that of %s: %w",
			want.Name, want.OwnerUID, g.Name, g.OwnerUID, plan.ErrOtherGroup)
	}
	if want.GroupUUID != "" && want.GroupUUID != g.UUID {
		return fmt.Errorf("volume %s is recorded in group %s with UUID %s, and the one that holds a volume of that name here has UUID %s: %w; "+
			"nothing is shown until the recorded group is back", want.Name, g.Name, want.GroupUUID, g.UUID, plan.ErrOtherGroup)
	}
	return nil
}

// ActivateVolume makes the device node of a volume of ours, /dev/GROUP/NAME, exist: after a boot no volume is active.
func (e *Engine) ActivateVolume(ctx context.Context, want volume.Spec) (plan.Volume, error) {
	return e.onNode(ctx, want, volume.Activate)
}

// SettleVolume records that a volume of ours is used from now on. It is on disk when the call returns.
func (e *Engine) SettleVolume(ctx context.Context, want volume.Spec) (plan.Volume, error) {
	return e.onNode(ctx, want, volume.Settle)
}

// onNode decides on a volume whatever its id is, as long as it is ours and in the group that is recorded: the caller knows it by its name.
func (e *Engine) onNode(ctx context.Context, want volume.Spec, decide volume.Decide) (plan.Volume, error) {
	if err := volume.CheckNames(want.Group, want.Name); err != nil {
		return plan.Volume{}, err
	}
	p, err := e.changeVolume(ctx, want, func(seen plan.Snapshot, want volume.Spec) (volume.Plan, error) {
		recorded, refused := want, error(nil)
		for _, g := range seen.Groups {
			v, ok := g.Volume(want.Name)
			if !ok || g.Name != want.Group || !g.Usable() {
				continue
			}
			if err := recordedGroup(g, recorded); err != nil {
				refused = err
				continue
			}
			want.OwnerUID, want.ID = g.OwnerUID, v.ID
		}
		if want.ID == "" && refused != nil {
			return volume.Plan{}, refused
		}
		return decide(seen, want)
	})
	return p.Volume, err
}
