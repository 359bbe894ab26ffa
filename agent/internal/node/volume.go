package node

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// CreateVolume makes a volume, and returns it.
func (e *Engine) CreateVolume(ctx context.Context, want volume.Spec) (plan.Volume, error) {
	return e.changeVolume(ctx, want, volume.Create)
}

// DeleteVolume removes a volume.
func (e *Engine) DeleteVolume(ctx context.Context, want volume.Spec) error {
	_, err := e.changeVolume(ctx, want, volume.Delete)
	return err
}

// ResizeVolume makes a volume larger, and returns it.
func (e *Engine) ResizeVolume(ctx context.Context, want volume.Spec) (plan.Volume, error) {
	return e.changeVolume(ctx, want, volume.Resize)
}

// EnsurePool makes or grows a thin pool, and returns it. It waits for other work on the group.
func (e *Engine) EnsurePool(ctx context.Context, want volume.PoolSpec) (plan.Pool, error) {
	unlock, err := e.locks.lock(ctx, groupKey(want.Group))
	if err != nil {
		return plan.Pool{}, err
	}
	defer unlock()
	after, _, err := e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) {
		p, err := volume.EnsurePool(before, want)
		return p.Plan, err
	})
	if err != nil {
		return plan.Pool{}, err
	}
	if g := find(after, want.Group, want.OwnerUID); g != nil {
		if p, ok := g.Pool(want.Name); ok {
			return p, nil
		}
	}
	return plan.Pool{}, fmt.Errorf("thin pool %s/%s is not seen after it was made", want.Group, want.Name)
}

// changeVolume is the recipe of every call on a volume. It decides on what is remembered and runs the commands at once: LVM looks again,
// in the process that makes the change, at everything on which the decision rests, which is the tag of the group, the tag of the volume,
// the name and the room. A plan without steps, and a refusal, are told only after the group was observed afresh. So is what LVM found to
// be otherwise. A plan that resizes is made on a fresh observation: lvextend cannot be told which tag to look for.
func (e *Engine) changeVolume(ctx context.Context, want volume.Spec, decide volume.Decide) (plan.Volume, error) {
	unlock, err := e.lockVolume(ctx, want.Group, want.Name)
	if err != nil {
		return plan.Volume{}, err
	}
	defer unlock()
	defer e.hub.underway.begin()()
	seen, err := e.hub.current(ctx)
	if err != nil {
		return plan.Volume{}, err
	}
	p, err := decide(seen, want)
	if err != nil || !guarded(p.Plan) {
		if seen, err = e.refresh(ctx, seen, want.Group); err != nil {
			return plan.Volume{}, err
		}
		if p, err = decide(seen, want); err != nil {
			return plan.Volume{}, err
		}
	}
	err = e.performVolume(ctx, seen, want, p)
	if !looksStale(err) {
		return p.Volume, err
	}
	if seen, err = e.refresh(ctx, seen, want.Group); err != nil {
		return plan.Volume{}, err
	}
	if p, err = decide(seen, want); err != nil {
		return plan.Volume{}, err
	}
	return p.Volume, e.performVolume(ctx, seen, want, p)
}

// lockVolume refuses a second call on the same volume, and lets calls on other volumes of the group wait for their turn.
func (e *Engine) lockVolume(ctx context.Context, group, name string) (unlock func(), err error) {
	unlockVolume, err := e.locks.tryLock("volume " + group + "/" + name)
	if err != nil {
		return nil, err
	}
	unlockGroup, err := e.locks.lock(ctx, groupKey(group))
	if err != nil {
		unlockVolume()
		return nil, err
	}
	return func() { unlockGroup(); unlockVolume() }, nil
}

func groupKey(group string) string { return "group " + group }

// guarded reports whether the plan changes something, and each of its steps looks for itself at what it may change. The growing of a
// copy follows its making in the same plan.
func guarded(p plan.Plan) bool {
	for i, step := range p.Steps {
		if _, extends := step.(volume.ExtendLV); extends && i == 0 {
			return false
		}
	}
	return len(p.Steps) > 0
}

// looksStale reports whether LVM found something else than what was remembered.
func looksStale(err error) bool {
	return errors.Is(err, plan.ErrAlreadyExists) || errors.Is(err, plan.ErrInUse) || errors.Is(err, plan.ErrRefused) || errors.Is(err, plan.ErrNoRoom)
}

// refresh observes one group afresh, or everything when the group is not known or not what it was.
func (e *Engine) refresh(ctx context.Context, seen plan.Snapshot, group string) (plan.Snapshot, error) {
	if e.cfg.Groups == nil {
		return e.hub.observe(ctx)
	}
	for _, g := range seen.Groups {
		if g.Name != group {
			continue
		}
		if now, err := e.cfg.Groups.ObserveGroup(ctx, g); err == nil {
			return volume.WithGroup(seen, now), nil
		}
	}
	return e.hub.observe(ctx)
}

// performVolume applies the plan and remembers what it made of the volume.
func (e *Engine) performVolume(ctx context.Context, seen plan.Snapshot, want volume.Spec, p volume.Plan) error {
	if len(p.Steps) == 0 {
		return nil
	}
	if err := e.apply(ctx, p.Plan); err != nil {
		return err
	}
	uuid := uuidOf(seen, want.Group)
	e.hub.fold(func(was plan.Snapshot) plan.Snapshot {
		if removes(p.Plan) {
			return volume.Without(was, want.Group, uuid, want.Name)
		}
		return volume.With(was, want.Group, uuid, p.Volume)
	})
	return nil
}

func removes(p plan.Plan) bool {
	_, ok := p.Steps[len(p.Steps)-1].(volume.RemoveLV)
	return ok
}
