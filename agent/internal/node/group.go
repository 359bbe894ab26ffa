package node

import (
	"context"
	"fmt"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/claim"
	"quarry.storage/quarry/agent/internal/plan/move"
	"quarry.storage/quarry/agent/internal/plan/repair"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// EnsureGroup makes the group hold at least the devices, and returns the group.
func (e *Engine) EnsureGroup(ctx context.Context, want plan.GroupSpec) (plan.Group, error) {
	after, _, err := e.changeGroup(ctx, want, true, plan.EnsureGroup)
	if err != nil {
		return plan.Group{}, err
	}
	group := find(after, want.Name, want.OwnerUID)
	if group == nil {
		return plan.Group{}, fmt.Errorf("group %s is not seen after it was made", want.Name)
	}
	return *group, nil
}

// ReduceGroup takes the devices out of the group. It returns the group, nil when there is none, and notes about what was left alone.
func (e *Engine) ReduceGroup(ctx context.Context, want plan.GroupSpec) (*plan.Group, []string, error) {
	after, done, err := e.changeGroup(ctx, want, false, plan.ReduceGroup)
	if err != nil {
		return nil, nil, err
	}
	return find(after, want.Name, want.OwnerUID), done.Notes, nil
}

// ForgetDevices makes the group forget devices that are missing, with the named volumes, and returns the group.
func (e *Engine) ForgetDevices(ctx context.Context, want volume.ForgetSpec) (plan.Group, error) {
	unlock, err := e.locks.tryLock(groupKey(want.Group))
	if err != nil {
		return plan.Group{}, err
	}
	defer unlock()
	after, _, err := e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) { return volume.Forget(before, want, e.cfg.Policy) })
	if err != nil {
		return plan.Group{}, err
	}
	group := find(after, want.Group, want.OwnerUID)
	if group == nil {
		return plan.Group{}, fmt.Errorf("group %s is not seen after it has forgotten devices", want.Group)
	}
	return *group, nil
}

// moveTurn is how long one call moves extents.
const moveTurn = 20 * time.Second

// MoveExtents moves extents off a device, slice by slice, until it holds none or the call has had its turn. It returns the group as it is then.
// Others work on the group between two slices.
func (e *Engine) MoveExtents(ctx context.Context, want move.Spec) (plan.Group, error) {
	for end := time.Now().Add(moveTurn); ; {
		after, done, err := e.moveSlice(ctx, want)
		if err != nil {
			return plan.Group{}, err
		}
		if len(done.Steps) > 0 && time.Now().Before(end) && ctx.Err() == nil {
			continue
		}
		group := find(after, want.Group, want.OwnerUID)
		if group == nil {
			return plan.Group{}, fmt.Errorf("group %s is not seen after extents were moved in it", want.Group)
		}
		return *group, nil
	}
}

func (e *Engine) moveSlice(ctx context.Context, want move.Spec) (plan.Snapshot, plan.Plan, error) {
	unlock, err := e.locks.lock(ctx, groupKey(want.Group))
	if err != nil {
		return plan.Snapshot{}, plan.Plan{}, err
	}
	defer unlock()
	return e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) { return move.Next(before, want) })
}

// RemoveGroup removes the group and leaves its devices clean. It returns notes about what was left alone.
func (e *Engine) RemoveGroup(ctx context.Context, want plan.GroupSpec) ([]string, error) {
	_, done, err := e.changeGroup(ctx, want, false, plan.RemoveGroup)
	return done.Notes, err
}

// ClaimGroup makes a group name this node, and returns the group.
func (e *Engine) ClaimGroup(ctx context.Context, want claim.Spec) (plan.Group, error) {
	unlock, err := e.locks.lock(ctx, groupKey(want.Name))
	if err != nil {
		return plan.Group{}, err
	}
	defer unlock()
	after, _, err := e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) { return claim.Group(before, want) })
	if err != nil {
		return plan.Group{}, err
	}
	for _, g := range after.Groups {
		if g.UUID == want.UUID {
			return g, nil
		}
	}
	return plan.Group{}, fmt.Errorf("group %s is not seen after it was claimed", want.Name)
}

// RepairPool repairs the metadata of a damaged thin pool, and returns the group with the pool. It waits for other work on the group.
func (e *Engine) RepairPool(ctx context.Context, want repair.Spec) (plan.Group, plan.Pool, error) {
	unlock, err := e.locks.lock(ctx, groupKey(want.Group))
	if err != nil {
		return plan.Group{}, plan.Pool{}, err
	}
	defer unlock()
	after, _, err := e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) { return repair.Pool(before, want) })
	if err != nil {
		return plan.Group{}, plan.Pool{}, err
	}
	if g := find(after, want.Group, want.OwnerUID); g != nil {
		if p, ok := g.Pool(want.Pool); ok {
			return *g, p, nil
		}
	}
	return plan.Group{}, plan.Pool{}, fmt.Errorf("thin pool %s/%s is not seen after its repair", want.Group, want.Pool)
}

// changeGroup locks the group and its devices, all of which must be present where the call needs them.
func (e *Engine) changeGroup(
	ctx context.Context, want plan.GroupSpec, present bool, decide func(plan.Snapshot, plan.GroupSpec, plan.Policy) (plan.Plan, error),
) (plan.Snapshot, plan.Plan, error) {
	keys, err := deviceKeys(e.cfg.Resolve, want.Devices, present)
	if err != nil {
		return plan.Snapshot{}, plan.Plan{}, err
	}
	unlock, err := e.locks.tryLock(append(keys, groupKey(want.Name))...)
	if err != nil {
		return plan.Snapshot{}, plan.Plan{}, err
	}
	defer unlock()
	return e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) { return decide(before, want, e.cfg.Policy) })
}

// find is the group of that name and owner that this node may use, nil when there is none.
func find(s plan.Snapshot, name, owner string) *plan.Group {
	for _, g := range s.Groups {
		if g.Name == name && g.OwnerUID == owner && g.Usable() {
			return &g
		}
	}
	return nil
}

// settlePatience is how long a change waits for devices that something happened to a moment ago. A device that is plugged in, wiped or
// released is tested for users after it has been quiet for two seconds, and up to ten later while udev is busy.
const settlePatience = 15 * time.Second

// settled observes and decides. While nothing speaks against the decision but that a device is still settling, it waits for the device,
// not for ever, and decides anew on what is seen then.
func (e *Engine) settled(ctx context.Context, decide func(plan.Snapshot) (plan.Plan, error)) (plan.Snapshot, plan.Plan, error) {
	patient, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for {
		before, err := e.hub.observe(ctx)
		if err != nil {
			return plan.Snapshot{}, plan.Plan{}, err
		}
		seen := e.hub.number()
		p, err := decide(before)
		if !plan.Settling(err) {
			return before, p, err
		}
		if _, waitErr := e.hub.next(patient, seen); waitErr != nil {
			return before, p, err
		}
	}
}
