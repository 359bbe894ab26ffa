package volume

import (
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
)

// gone returns nil for a volume that is not seen and does not exist: the caller forgets it. The error says why it may exist all the same.
func gone(s plan.Snapshot, g group, want Spec) error {
	if err := s.Nowhere(want.Group, want.OwnerUID); err != nil {
		return fmt.Errorf("volume %s is not seen: %w", want.Name, err)
	}
	return Unseen(plan.Snapshot{Groups: []plan.Group{g.Group}}, want)
}

// Unseen refuses, with plan.ErrUnseen, to conclude that a volume does not exist that is not seen in a group that lacks a device. Each disk says what the
// group has, and one that was away meanwhile says what it had: those that are there may all be of before.
func Unseen(s plan.Snapshot, want Spec) error {
	for _, g := range s.Groups {
		if g.Name == want.Group && g.Partial {
			return fmt.Errorf("volume %s is not seen in group %s: %w; it is gone for sure once the device is back or the group has forgotten it",
				want.Name, g.Name, plan.ErrUnseen)
		}
	}
	return nil
}

// remove is Delete of a volume that is at work.
func remove(s plan.Snapshot, want Spec) (Plan, error) {
	g, v, exists, err := find(s, want)
	switch {
	case err != nil:
		return Plan{}, err
	case !exists:
		return Plan{}, gone(s, g, want)
	case v.Open && !v.Suspended:
		// Whoever looks at a suspended device waits with it open, as udev does. LVM looks again once it is at work.
		return Plan{}, fmt.Errorf("volume %s in group %s: %w", v.Name, g.Name, plan.ErrOpen)
	case want.OnlyUnused && !v.Unused():
		return Plan{}, fmt.Errorf("volume %s in group %s was used, or holds a copy, and is to be removed only without content: %w",
			v.Name, g.Name, plan.ErrInUse)
	}
	if v.Pool != "" {
		// LVM may leave devices of the pool suspended. Of other volumes, it refuses to remove those that it moves.
		if err := g.still(); err != nil {
			return Plan{}, err
		}
	}
	p, _ := g.Pool(v.Pool)
	if p.Damage != "" {
		return Plan{}, g.damaged(v.Name, p)
	}
	if p.Health == plan.HealthPartial {
		return Plan{}, fmt.Errorf("volume %s is in thin pool %s/%s: %w, and a part of the pool was on it; LVM removes nothing from such a pool",
			v.Name, g.Name, p.Name, plan.ErrPartial)
	}
	var out Plan
	if tail, ok := g.tail(v); ok {
		out.Steps = append(out.Steps, RemoveLV{Group: g.Ref(), Name: tail.Name, Tag: plan.TagTailOf + v.ID, Reason: "the volume that was to grow by it goes"})
	}
	if p.Ours && !p.Active {
		// LVM would activate it to remove something from it, without looking at how its metadata begins.
		out.Steps = append(out.Steps, g.activatePool(p, "a volume in it is removed"))
	}
	out.Volume = v
	out.Steps = append(out.Steps, RemoveLV{
		Group: g.Ref(), Name: v.Name, Tag: plan.TagVolume + v.ID, Afresh: want.OnlyUnused, Reason: "the volume is not wanted any more",
	})
	return out, nil
}

// discardSlice bounds what is discarded in one step, and so how soon a call that does so ends.
const discardSlice = 256 << 20

// Discarding plans what has to be so before a volume is discarded that may be removed now: it works, its device exists, and a tag says that there may be
// holes in it. A person can bind a claim to it until it is gone, and nobody else would know of them after a restart of the agent. Nothing is to be
// discarded if the volume in the plan has no UUID. That is so for one that is gone, for a thin one, of which the pool knows what is free, and for
// one that cannot be reached as a whole: it is removed without.
func Discarding(s plan.Snapshot, want Spec) (Plan, error) {
	p, err := Delete(s, want)
	if err != nil || !want.Discard || want.OnlyUnused || len(p.Steps) == 0 {
		return Plan{}, err
	}
	g, err := holder(s, want)
	if err != nil {
		return Plan{}, err
	}
	v := p.Volume
	if v.Pool != "" || v.Snapshot || v.Stale || v.Health == plan.HealthPartial || g.Still() != nil {
		return Plan{}, nil
	}
	if p, err = Activate(s, want); err != nil || v.Removing || v.UUID == "" {
		return p, err
	}
	p.Volume.Removing = true
	p.Steps = append(p.Steps, MarkRemoving{
		Group: g.Ref(), Name: v.Name, Tag: plan.TagVolume + v.ID, Reason: "it is discarded next, and nobody may use what is left of it",
	})
	return p, nil
}

// DiscardNext plans the next slice of a volume that Discarding prepared, from a byte on. It needs nothing at the end of the volume.
func DiscardNext(group string, p Plan, from int64) plan.Plan {
	v := p.Volume
	if v.UUID == "" || from >= v.SizeBytes {
		return plan.Plan{}
	}
	return does(DiscardLV{
		Group: group, GroupUUID: p.GroupUUID, Name: v.Name, UUID: v.UUID, From: from, To: min(from+discardSlice, v.SizeBytes),
		Reason: "the volume is removed, and its disks may use the space for something else",
	})
}

// removing is the error of whatever needs all that a volume held whose removal began; nil for any other volume.
func removing(v plan.Volume) error {
	if !v.Removing {
		return nil
	}
	return fmt.Errorf("volume %s: %w", v.Name, plan.ErrRemoving)
}

// resize is Resize of a volume that is at work. One that is still to be zeroed as a whole was never given to a claim, or older metadata of it came back:
// that is refused, and only what it grows by is zeroed.
func resize(s plan.Snapshot, want Spec) (Plan, error) {
	g, v, err := present(s, want)
	switch {
	case err != nil:
		return Plan{}, err
	case v.ToZero():
		// A claim gets its volume once that is zeroed, and only what has a claim grows.
		return Plan{}, fmt.Errorf("volume %s in group %s: %w", v.Name, g.Name, plan.ErrRestored)
	case v.Removing:
		return Plan{}, removing(v)
	case v.SizeBytes >= want.SizeBytes:
		return g.withoutTail(v), nil
	case v.Snapshot:
		return Plan{}, fmt.Errorf("%s in group %s is a snapshot, which does not grow: %w", v.Name, g.Name, plan.ErrInvalid)
	case g.IsStale(v):
		// LVM would give it a device over the disk that is back, under a user whose writes are lost.
		return Plan{}, fmt.Errorf("volume %s in group %s, or its thin pool, leads to a disk that dropped off: %w for it, and it does not grow until whoever has it open ends",
			v.Name, g.Name, plan.ErrPartial)
	}
	if _, err := groupOf(s, plan.GroupSpec{Name: want.Group, OwnerUID: want.OwnerUID, UUID: want.GroupUUID}); err != nil {
		return Plan{}, fmt.Errorf("grow volume %s: %w", v.Name, err)
	}
	size, err := g.roundUp(want.SizeBytes)
	if err != nil {
		return Plan{}, err
	}
	reason := fmt.Sprintf("volume has %d bytes and %d are wanted", v.SizeBytes, want.SizeBytes)
	if zeroes(v, want.Zero) {
		return g.growZeroed(v, size, reason)
	}
	return g.grow(v, size, want.OverprovisionPercent, plan.ErrOverLimit, reason)
}

// activate is Activate of a volume that is at work, or not active.
func activate(s plan.Snapshot, want Spec) (Plan, error) {
	g, v, err := present(s, want)
	switch {
	case err != nil:
		return Plan{}, err
	case v.Health == plan.HealthPartial:
		return Plan{}, fmt.Errorf("volume %s in group %s: %w, and a part of the volume was on it: it cannot be used until the device is back",
			v.Name, g.Name, plan.ErrPartial)
	case v.Stale && (v.Open || v.Pool != ""):
		return Plan{}, fmt.Errorf("volume %s in group %s: %w", v.Name, g.Name, plan.ErrStale)
	case v.Stale:
		out := Plan{Volume: v, Plan: plan.Plan{Steps: group{g.only(v)}.remap()}}
		out.Volume.Stale = false
		return out, nil
	case v.Active:
		return Plan{Volume: v}, nil
	}
	const why plan.Reason = "the volume is wanted on this node and not active"
	var steps []plan.Step
	switch p, _ := g.Pool(v.Pool); {
	case p.Damage != "":
		return Plan{}, g.damaged(v.Name, p)
	case p.Stale:
		return Plan{}, fmt.Errorf("volume %s in thin pool %s/%s: %w", v.Name, g.Name, p.Name, plan.ErrStale)
	case p.Ours && !p.Active:
		// LVM would activate it along with the volume, without looking at how its metadata begins.
		steps = append(steps, g.activatePool(p, why))
	}
	steps = append(steps, ActivateLV{Group: g.Ref(), Name: v.Name, Tag: plan.TagVolume + v.ID, Reason: why})
	v.Active = true
	return Plan{Volume: v, Plan: does(steps...)}, nil
}

// settle is Settle of a volume that is at work.
func settle(s plan.Snapshot, want Spec) (Plan, error) {
	g, v, err := present(s, want)
	switch {
	case err != nil || !v.New:
		return Plan{Volume: v}, err
	case v.ToZero():
		return Plan{}, progress(v)
	}
	step := SettleLV{Group: g.Ref(), Name: v.Name, Tag: plan.TagVolume + v.ID, Reason: "the volume is used from now on"}
	v.New = false
	return Plan{Volume: v, Plan: does(step)}, nil
}
