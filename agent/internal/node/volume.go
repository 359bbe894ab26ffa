package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// CreateVolume makes a volume, and returns it with the UUID of its group once nobody can read there what another wrote. It waits a moment for
// that: plan.ErrUnzeroed.
func (e *Engine) CreateVolume(ctx context.Context, want volume.Spec) (made plan.Volume, groupUUID string, err error) {
	p, err := e.whenZeroed(ctx, want, volume.Create, awaited(plan.Volume{ID: want.ID}))
	return p.Volume, p.GroupUUID, err
}

// ResizeVolume makes a volume larger, and returns it. It waits as CreateVolume does, and lets nothing be zeroed but what the volume grows by.
func (e *Engine) ResizeVolume(ctx context.Context, want volume.Spec) (plan.Volume, error) {
	p, err := e.whenZeroed(ctx, want, volume.Resize, awaited(plan.Volume{TailOf: want.ID}))
	return p.Volume, err
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
// be otherwise. A plan that resizes is made on a fresh observation: lvextend cannot be told which tag to look for. It returns the plan that
// was carried out.
func (e *Engine) changeVolume(ctx context.Context, want volume.Spec, decide volume.Decide) (volume.Plan, error) {
	unlock, err := e.lockVolume(ctx, want.Group, want.Name)
	if err != nil {
		return volume.Plan{}, err
	}
	defer unlock()
	defer e.hub.underway.begin()()
	seen, err := e.hub.current(ctx)
	if err != nil {
		return volume.Plan{}, err
	}
	p, err := decide(seen, want)
	if err != nil || !guarded(p.Plan) {
		if seen, err = e.refresh(ctx, seen, want.Group); err != nil {
			return volume.Plan{}, err
		}
		if p, err = decide(seen, want); err != nil {
			return volume.Plan{}, e.sure(seen, want, err)
		}
	}
	err = e.performVolume(ctx, seen, want, p)
	if !looksOutdated(err) {
		return p, cmp.Or(err, p.Unfinished)
	}
	if seen, err = e.refresh(ctx, seen, want.Group); err != nil {
		return volume.Plan{}, err
	}
	if p, err = decide(seen, want); err != nil {
		return volume.Plan{}, e.sure(seen, want, err)
	}
	return p, cmp.Or(e.performVolume(ctx, seen, want, p), p.Unfinished)
}

// sure is an error about a volume. That it does not exist is told only where all of its group is seen, or where no disk of the node can hide that.
func (e *Engine) sure(seen plan.Snapshot, want volume.Spec, err error) error {
	if !errors.Is(err, plan.ErrNotFound) {
		return err
	}
	return cmp.Or(seen.Absent(want.Group, "", e.cfg.Policy), volume.Unseen(seen, want), err)
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
	made, changes := false, false
	for _, step := range p.Steps {
		if _, resumes := step.(volume.RefreshLV); resumes {
			// It passes over a volume that is gone, in silence.
			continue
		}
		changes = true
		switch step := step.(type) {
		case volume.CreateLV:
			made = true
		case volume.MarkRemoving:
			// LVM does not look whether somebody has the volume open.
			return false
		case volume.ExtendLV:
			if !made {
				return false
			}
		case volume.RemoveLV:
			if step.Afresh {
				return false
			}
		}
	}
	return changes
}

// looksOutdated reports whether LVM found something else than what was remembered.
func looksOutdated(err error) bool {
	return errors.Is(err, plan.ErrAlreadyExists) || errors.Is(err, plan.ErrInUse) || errors.Is(err, plan.ErrRefused) || errors.Is(err, plan.ErrNoRoom)
}

// refresh observes the groups of a name afresh, or everything when there is none or one is not what it was.
func (e *Engine) refresh(ctx context.Context, seen plan.Snapshot, group string) (plan.Snapshot, error) {
	if e.cfg.Groups == nil {
		return e.hub.observe(ctx)
	}
	now, known := seen, false
	for _, g := range seen.Groups {
		if g.Name != group {
			continue
		}
		fresh, err := e.cfg.Groups.ObserveGroup(ctx, g)
		if err != nil {
			return e.hub.observe(ctx)
		}
		now, known = volume.WithGroup(now, fresh), true
	}
	if !known {
		return e.hub.observe(ctx)
	}
	return now, nil
}

// performVolume applies the plan and remembers what it made of the volume. In a group that lacks a device, LVM writes a change only to the disks that are there: nobody
// hears of it before it is noted that there is such a change. Otherwise the disk that is away could be taken for all there is when it comes back alone.
func (e *Engine) performVolume(ctx context.Context, seen plan.Snapshot, want volume.Spec, p volume.Plan) error {
	if len(p.Steps) == 0 {
		return nil
	}
	if err := e.apply(ctx, p.Plan); err != nil {
		return err
	}
	e.hub.fold(func(was plan.Snapshot) plan.Snapshot { return volume.After(was, want.Group, p) })
	if !slices.ContainsFunc(seen.Groups, func(g plan.Group) bool { return g.Name == want.Group && g.Partial }) {
		return nil
	}
	// Each report notes what it shows.
	now, err := e.refresh(context.WithoutCancel(ctx), seen, want.Group)
	if err == nil && !slices.ContainsFunc(now.Groups, func(g plan.Group) bool { return g.Name == want.Group }) {
		err = fmt.Errorf("group %s is not seen after it was changed without a device: %w", want.Group, plan.ErrUnsure)
	}
	return cmp.Or(err, now.Sure(want.Group, want.OwnerUID))
}
