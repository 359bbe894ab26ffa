package node

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// LookupVolume reads afresh what is recorded of a volume of the node, ours or not. It returns plan.ErrNotFound when no group of ours on
// the node holds the volume, and plan.ErrUnsure when one that is unknown may. This and the following methods are for the CSI node service of the same process.
func (e *Engine) LookupVolume(ctx context.Context, group, name string) (plan.Volume, error) {
	if err := volume.CheckNames(group, name); err != nil {
		return plan.Volume{}, err
	}
	seen, err := e.hub.current(ctx)
	if err != nil {
		return plan.Volume{}, err
	}
	if seen, err = e.refresh(ctx, seen, group); err != nil {
		return plan.Volume{}, err
	}
	var found []plan.Volume
	for _, g := range seen.Groups {
		if v, ok := g.Volume(name); ok && g.Name == group {
			// A volume whose pool holds back its writers holds them back too.
			p, _ := g.Pool(v.Pool)
			v.Suspended = v.Suspended || p.Suspended
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
	default:
		return plan.Volume{}, fmt.Errorf("volume %s is in %d groups of the name %s: %w; take the disks of the copy out of the node",
			name, len(found), group, plan.ErrUnsure)
	}
	if err := seen.Sure(group, ""); err != nil {
		return plan.Volume{}, err
	}
	return plan.Volume{}, fmt.Errorf("volume %s in group %s: %w", name, group, plan.ErrNotFound)
}

// ActivateVolume makes the device node of a volume of ours, /dev/GROUP/NAME, exist: after a boot no volume is active.
func (e *Engine) ActivateVolume(ctx context.Context, group, name string) (plan.Volume, error) {
	return e.onNode(ctx, group, name, volume.Activate)
}

// SettleVolume records that a volume of ours is used from now on. It is on disk when the call returns.
func (e *Engine) SettleVolume(ctx context.Context, group, name string) (plan.Volume, error) {
	return e.onNode(ctx, group, name, volume.Settle)
}

// onNode decides on a volume whatever its id and owner are, as long as it is ours: the caller knows it by its name.
func (e *Engine) onNode(ctx context.Context, group, name string, decide volume.Decide) (plan.Volume, error) {
	if err := volume.CheckNames(group, name); err != nil {
		return plan.Volume{}, err
	}
	want := volume.Spec{Group: group, Name: name}
	return e.changeVolume(ctx, want, func(seen plan.Snapshot, want volume.Spec) (volume.Plan, error) {
		for _, g := range seen.Groups {
			if v, ok := g.Volume(name); ok && g.Name == group {
				want.OwnerUID, want.ID = g.OwnerUID, v.ID
			}
		}
		return decide(seen, want)
	})
}
