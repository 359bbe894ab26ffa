package agenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/repair"
	volumeplan "quarry.storage/quarry/agent/internal/plan/volume"
)

func (s session) performOnVolume(ctx context.Context, step plan.Step) error {
	switch st := step.(type) {
	case volumeplan.CreateLV:
		return s.createLV(ctx, st)
	case volumeplan.ExtendLV:
		return s.extendLV(ctx, st)
	case volumeplan.ActivateLV:
		return s.activateLV(ctx, st)
	case volumeplan.DeactivateLV:
		return s.deactivateLV(ctx, st)
	case volumeplan.RefreshLV:
		return s.refreshLV(ctx, st)
	case volumeplan.SettleLV:
		return s.retagLV(ctx, st.Group, st.Name, st.Tag, func(v *volume) { v.New = false })
	case volumeplan.MarkRemoving:
		return s.retagLV(ctx, st.Group, st.Name, st.Tag, func(v *volume) { v.Removing = true })
	case volumeplan.ZeroLV:
		return s.zeroLV(ctx, st)
	case volumeplan.DiscardLV:
		return s.zeroLV(ctx, volumeplan.ZeroLV(st)) // A disk that reads as zero what it discarded.
	case volumeplan.MarkZeroed:
		return s.markZeroed(ctx, st)
	case volumeplan.RemoveLV:
		return s.removeLV(ctx, st)
	}
	return s.performOnPool(ctx, step)
}

func (s session) performOnPool(ctx context.Context, step plan.Step) error {
	switch st := step.(type) {
	case volumeplan.CreatePool:
		return s.createPool(ctx, st)
	case volumeplan.ActivatePool:
		return s.activatePool(ctx, st)
	case repair.Metadata:
		return s.repairPool(ctx, st)
	case plan.DeactivatePool:
		return s.deactivatePool(ctx, st)
	case plan.RemovePool:
		return s.removePool(ctx, st)
	}
	return apply.ErrUnknown
}

// ObserveGroup sees one group.
func (s session) ObserveGroup(ctx context.Context, was plan.Group) (plan.Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.broken, s.mute); err != nil {
		return plan.Group{}, err
	}
	g := s.groups[was.Name]
	if s.faults.life != s.life || g == nil || g.uuid != was.UUID {
		return plan.Group{}, errAbsent
	}
	s.commands++
	now, present := s.observeGroup(g)
	if !present {
		return plan.Group{}, errAbsent
	}
	return now, s.failure(g)
}

// createLV refuses a name that is taken, and what has no room.
func (s session) createLV(ctx context.Context, step volumeplan.CreateLV) error {
	return s.command(ctx, "lvcreate", step.Group, func(g *group) error {
		if g.volume(step.Name) != nil || g.pool(step.Name) != nil {
			return plan.ErrAlreadyExists
		}
		v := volume{Volume: Volume{
			Name: step.Name, ID: valueOf(step.Tags, plan.TagVolume), TailOf: valueOf(step.Tags, plan.TagTailOf), SizeBytes: step.SizeBytes, Pool: step.Pool, Source: step.Source, Snapshot: step.Snapshot,
			Active: !step.Snapshot, New: slices.Contains(step.Tags, plan.TagNew), FilesystemOnly: slices.Contains(step.Tags, plan.TagFilesystemOnly),
		}, of: valueOf(step.Tags, plan.TagSource)}
		v.ZeroedBytes, v.Unzeroed = unzeroed(step.Tags)
		if err := s.place(g, &v, step.SizeBytes); err != nil {
			return err
		}
		v.created = s.tick()
		g.volumes = append(g.volumes, v)
		return nil
	})
}

// place finds the extents of a linear volume, the pool of a thin one, the size of a copy.
func (s session) place(g *group, v *volume, bytes int64) error {
	if v.Source != "" {
		source := g.volume(v.Source)
		if source == nil || source.Pool == "" {
			return errAbsent
		}
		v.Pool, v.SizeBytes, v.content, v.files = source.Pool, source.SizeBytes, source.content, source.files
		v.uuid, v.made = source.uuid, source.made
		source.Suspended = false // LVM suspends the source itself, and lets go of it at the end.
	}
	if v.Pool != "" {
		p := g.pool(v.Pool)
		if p == nil {
			return errAbsent
		}
		p.active = true
		return nil
	}
	on, err := s.allocate(g, bytes)
	v.on, v.content = on, garbage
	return err
}

// extendLV never makes anything smaller.
func (s session) extendLV(ctx context.Context, step volumeplan.ExtendLV) error {
	return s.command(ctx, "lvextend", step.Group, func(g *group) error {
		v, p := g.volume(step.Name), g.pool(step.Name)
		var size *int64
		var on *[]extents
		switch {
		case v != nil && v.Pool != "":
			size = &v.SizeBytes
		case v != nil && g.locked(v):
			return errLocked
		case v != nil:
			size, on = &v.SizeBytes, &v.on
		case p != nil:
			size, on = &p.bytes, &p.on
		default:
			return errAbsent
		}
		if step.SizeBytes <= *size {
			return errors.New("new size not larger than existing size")
		}
		if on != nil {
			more, err := s.allocateOver(g, step.SizeBytes-*size, step.Over)
			if err != nil {
				return err
			}
			*on = append(*on, more...)
		}
		*size = step.SizeBytes
		if p != nil && v == nil {
			p.meta = max(p.meta, step.MetadataBytes)
		}
		return nil
	})
}

// activateLV passes over a volume that is not ours.
func (s session) activateLV(ctx context.Context, step volumeplan.ActivateLV) error {
	return s.lenient(ctx, "lvchange", step.Group, func(g *group) error {
		v, p := g.tagged(step.Name, step.Tag), g.pool(step.Name)
		switch {
		case v != nil && s.lost(g, v.on), p != nil && s.lost(g, p.on):
			return errors.New("refusing activation of a partial volume")
		case v != nil:
			v.Active, p = true, g.pool(v.Pool)
		}
		// With a volume comes its pool.
		if p != nil && (v != nil || p.ours && step.Tag == plan.TagPool) {
			p.active = true
		}
		return nil
	})
}

// refreshLV passes over a volume that is not ours.
func (s session) refreshLV(ctx context.Context, step volumeplan.RefreshLV) error {
	return s.lenient(ctx, "lvchange", step.Group, func(g *group) error {
		if v := g.tagged(step.Name, step.Tag); v != nil {
			v.Suspended, v.stale = false, false
		}
		if p := g.pool(step.Name); p != nil && p.ours && step.Tag == plan.TagPool {
			p.suspended, p.stale = false, false
		}
		return nil
	})
}

// retagLV passes over a volume that is not ours.
func (s session) retagLV(ctx context.Context, of plan.GroupRef, name, tag string, change func(*volume)) error {
	return s.lenient(ctx, "lvchange", of, func(g *group) error {
		if v := g.tagged(name, tag); v != nil {
			change(v)
		}
		return nil
	})
}

// removeLV refuses what is open, and what is not ours.
func (s session) removeLV(ctx context.Context, step volumeplan.RemoveLV) error {
	return s.lenient(ctx, "lvremove", step.Group, func(g *group) error {
		v := g.tagged(step.Name, step.Tag)
		switch {
		case v == nil:
			return errAbsent
		case s.open(*v):
			return errOpen
		case g.locked(v):
			return errLocked
		}
		for i := range g.volumes {
			// LVM forgets the source of a copy. What stands in a tag stays.
			if g.volumes[i].Source == step.Name {
				g.volumes[i].Source = g.volumes[i].of
			}
		}
		g.volumes = slices.DeleteFunc(g.volumes, func(v volume) bool { return v.Name == step.Name })
		return nil
	})
}

// createPool needs room for the metadata, and for a spare of it.
func (s session) createPool(ctx context.Context, step volumeplan.CreatePool) error {
	return s.command(ctx, "lvcreate", step.Group, func(g *group) error {
		if g.volume(step.Name) != nil || g.pool(step.Name) != nil {
			return plan.ErrAlreadyExists
		}
		on, err := s.allocate(g, step.SizeBytes+2*step.MetadataBytes)
		if err != nil {
			return err
		}
		g.pools = append(g.pools, pool{
			name: step.Name, ours: slices.Contains(step.Tags, plan.TagPool), active: true, bytes: step.SizeBytes, meta: step.MetadataBytes, on: on,
		})
		return nil
	})
}

// removePool refuses a pool that is active, holds volumes, or is not ours.
func (s session) removePool(ctx context.Context, step plan.RemovePool) error {
	return s.command(ctx, "lvremove", step.Group, func(g *group) error {
		p := g.pool(step.Name)
		switch {
		case p == nil, !p.ours, slices.ContainsFunc(g.volumes, func(v volume) bool { return v.Pool == step.Name }):
			return errAbsent
		case p.active:
			return errOpen
		}
		g.pools = slices.DeleteFunc(g.pools, func(p pool) bool { return p.name == step.Name })
		return nil
	})
}

// command makes one change to a group that is whole and carries the tag. Every try is a command, whether it succeeds or not.
func (s session) command(ctx context.Context, command string, ref plan.GroupRef, effect func(*group) error) error {
	return s.commandOn(ctx, command, ref, s.whole, effect)
}

// lenient is a command that LVM runs on a group that lacks a device too.
func (s session) lenient(ctx context.Context, command string, ref plan.GroupRef, effect func(*group) error) error {
	return s.commandOn(ctx, command, ref, s.partly, effect)
}

func (s session) commandOn(
	ctx context.Context, command string, ref plan.GroupRef, find func(string, []string) (*group, error), effect func(*group) error,
) error {
	s.mu.Lock()
	s.commands++
	s.mu.Unlock()
	return s.change(ctx, func() error {
		g, err := find(ref.Name, ref.Devices)
		switch {
		case err != nil:
			return fmt.Errorf("%s %s: %w: %w", command, ref.Name, plan.ErrRefused, err)
		case !slices.Contains(g.tags, ref.Tag):
			return fmt.Errorf("%s %s: %w: the group carries another tag", command, ref.Name, plan.ErrRefused)
		}
		if err := effect(g); err != nil {
			return fmt.Errorf("%s %s: %w", command, ref.Name, err)
		}
		return nil
	})
}

// Commands is the number of LVM commands that calls on volumes ran so far: changes, and reports on one group.
func (h *Host) Commands() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commands
}

func (g *group) tagged(name, tag string) *volume {
	v := g.volume(name)
	if v != nil && (v.ID != "" && plan.TagVolume+v.ID == tag || v.TailOf != "" && plan.TagTailOf+v.TailOf == tag) {
		return v
	}
	return nil
}
