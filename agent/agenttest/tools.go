package agenttest

import (
	"context"
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/move"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/systemid"
)

// The tools refuse what the real ones refuse, so that a plan that would fail on a node fails here too.
var (
	_ apply.Adapter = session{}
	_ apply.Guard   = session{}
)

// Perform makes the change that a step describes.
func (s session) Perform(ctx context.Context, step plan.Step) error {
	switch st := step.(type) {
	case plan.CreatePV:
		return s.createPV(ctx, st)
	case plan.CreateVG:
		return s.createVG(ctx, st)
	case plan.ExtendVG:
		return s.extendVG(ctx, st)
	case plan.ReduceVG:
		return s.reduceVG(ctx, st)
	case plan.ReduceMissing:
		return s.reduceMissing(ctx, st)
	case plan.RestorePV:
		return s.restorePV(ctx, st)
	case move.Drop:
		return s.dropEmptied(ctx, st)
	case move.Extents:
		return s.moveExtents(ctx, st)
	case plan.RemoveVG:
		return s.removeVG(ctx, st)
	case plan.WipeDevice:
		return s.wipe(ctx, st)
	case plan.ReleasePV:
		return s.release(ctx, st)
	}
	return s.performOnOwnership(ctx, step)
}

// Observe sees the host. An agent that died sees nothing.
func (s session) Observe(ctx context.Context) (plan.Snapshot, error) {
	s.mu.Lock()
	died := s.faults.life != s.life
	s.mu.Unlock()
	if died {
		return plan.Snapshot{}, errDied
	}
	return s.observe(ctx)
}

// Watch signals changes of the host.
func (s session) Watch(ctx context.Context) (<-chan struct{}, error) { return s.watch(ctx), nil }

// Version of the fake LVM.
func (s session) Version(context.Context) (string, error) { return "2.03.99(2)-fake", nil }

// createPV refuses a device that is not as described, in use or not empty, and a UUID that exists.
func (s session) createPV(ctx context.Context, step plan.CreatePV) error {
	device, uuid := step.Token().Device().Path, pvuuid.Complete(step.Stem)
	s.mu.Lock()
	_, err := s.exclusive(step)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.change(ctx, func() error {
		d, err := s.present(device)
		switch {
		case err != nil:
			return err
		case d.inUse(), !d.empty(), len(d.unreadable) > 0:
			return fmt.Errorf("pvcreate %s: cannot use the device", device)
		case s.carrier(uuid) != nil:
			return fmt.Errorf("pvcreate %s: uuid %s is in use", device, uuid)
		}
		d.pv = uuid
		return nil
	})
}

// createVG refuses a name that exists and devices that are not free physical volumes.
func (s session) createVG(ctx context.Context, step plan.CreateVG) error {
	name := step.Name
	return s.change(ctx, func() error {
		if s.groups[name] != nil {
			return fmt.Errorf("vgcreate %s: the group exists", name)
		}
		pvs, err := s.freePVs(step, step.Devices)
		if err != nil {
			return fmt.Errorf("vgcreate %s: %w", name, err)
		}
		s.groups[name] = &group{name: name, uuid: s.groupUUID(name), tags: slices.Clone(step.Tags), pvs: pvs, systemID: systemid.Of(s.node)}
		return nil
	})
}

// extendVG refuses a group that is not complete or not wholly visible.
func (s session) extendVG(ctx context.Context, step plan.ExtendVG) error {
	name := step.Name
	return s.change(ctx, func() error {
		g, err := s.whole(name, step.GroupDevices)
		if err != nil {
			return fmt.Errorf("vgextend %s: %w", name, err)
		}
		pvs, err := s.freePVs(step, step.Devices)
		if err != nil {
			return fmt.Errorf("vgextend %s: %w", name, err)
		}
		g.pvs = append(g.pvs, pvs...)
		return nil
	})
}

// reduceVG refuses the last physical volume and those with extents.
func (s session) reduceVG(ctx context.Context, step plan.ReduceVG) error {
	name := step.Name
	return s.change(ctx, func() error {
		g, err := s.whole(name, step.GroupDevices)
		if err != nil {
			return fmt.Errorf("vgreduce %s: %w", name, err)
		}
		left := slices.Clone(g.pvs)
		for _, device := range step.Devices {
			d, err := s.present(device)
			if err != nil {
				return fmt.Errorf("vgreduce %s: %w", name, err)
			}
			i := slices.Index(left, d.pv)
			if i < 0 || g.used(d.pv) > 0 || len(left) == 1 || g.moving != nil {
				return fmt.Errorf("vgreduce %s: %s cannot be taken out", name, device)
			}
			left = slices.Delete(left, i, i+1)
		}
		g.pvs = left
		return nil
	})
}

// reduceMissing refuses a group of which something that is missing holds extents. Those that are dropped keep what is on them.
func (s session) reduceMissing(ctx context.Context, step plan.ReduceMissing) error {
	name := step.Name
	return s.change(ctx, func() error {
		g := s.groups[name]
		if g == nil {
			return fmt.Errorf("vgreduce %s: no such group", name)
		}
		if err := s.accessible(g); err != nil {
			return fmt.Errorf("vgreduce %s: %w", name, err)
		}
		was := &group{name: g.name, uuid: g.uuid, tags: slices.Clone(g.tags), pvs: slices.Clone(g.pvs)}
		var left []string
		var gone []*disk
		for _, pv := range g.pvs {
			d := s.carrier(pv)
			switch {
			case s.visible(g, pv, step.GroupDevices):
				left = append(left, pv)
			case g.used(pv) > 0:
				return fmt.Errorf("vgreduce %s: there are still partial volumes", name)
			case d != nil:
				gone = append(gone, d)
			}
		}
		if len(left) == 0 {
			return fmt.Errorf("vgreduce %s: no such group", name)
		}
		g.pvs = left
		for _, d := range gone {
			d.outdated = was
		}
		return nil
	})
}

// removeVG refuses a group with volumes.
func (s session) removeVG(ctx context.Context, step plan.RemoveVG) error {
	name := step.Name
	return s.change(ctx, func() error {
		g, err := s.whole(name, step.GroupDevices)
		if err != nil {
			return fmt.Errorf("vgremove %s: %w", name, err)
		}
		if len(g.volumes) > 0 || len(g.pools) > 0 {
			return fmt.Errorf("vgremove %s: the group holds volumes", name)
		}
		delete(s.groups, name)
		return nil
	})
}

// wipe leaves its mark first and empties the device then: an agent can die between the two.
func (s session) wipe(ctx context.Context, step plan.WipeDevice) error {
	device, marked := step.Token().Device(), false
	err := s.change(ctx, func() error {
		d, err := s.exclusive(step)
		if err != nil {
			return err
		}
		d.wipe, marked = &wipeMark{digest: device.Digest, covered: slices.Clone(d.signatures)}, true
		return nil
	})
	if err != nil || !marked {
		return err
	}
	return s.change(ctx, func() error {
		d, err := s.present(device.Path)
		if err != nil {
			return err
		}
		d.erase()
		return nil
	})
}

// release refuses a physical volume that is another one, or in a group.
func (s session) release(ctx context.Context, step plan.ReleasePV) error {
	return s.change(ctx, func() error {
		d, err := s.exclusive(step)
		if err != nil {
			return err
		}
		if d.pv != step.PVUUID() || s.groupOf(d.pv) != nil {
			return fmt.Errorf("%s: another physical volume, or in a group", step)
		}
		d.pv = ""
		return nil
	})
}

// freePVs are the physical volumes on the devices, which must be in no group and in no use, and be those of the step's tokens.
func (s session) freePVs(step plan.Guarded, devices []string) ([]string, error) {
	if len(step.Tokens()) != len(devices) {
		return nil, fmt.Errorf("%d devices have %d tokens", len(devices), len(step.Tokens()))
	}
	for _, t := range step.Tokens() {
		d, err := s.present(t.Device().Path)
		if err != nil {
			return nil, err
		}
		if err := t.Verify(s.device(d)); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, path := range devices {
		d, err := s.present(path)
		if err != nil {
			return nil, err
		}
		if d.pv == "" || s.groupOf(d.pv) != nil || d.inUse() {
			return nil, fmt.Errorf("%s is not a free physical volume", path)
		}
		out = append(out, d.pv)
	}
	return out, nil
}

// moving is a pvmove: the extents of linear volumes on a physical volume, up to so many bytes, and where they go.
type moving struct {
	from  string
	bytes int64
	to    []extents
}

// locked reports whether a pvmove has extents of a volume.
func (g *group) locked(v *volume) bool {
	return g.moving != nil && slices.ContainsFunc(v.on, func(e extents) bool { return e.pv == g.moving.from })
}

// goesOn reports whether no other move is to be begun: there is one off the physical volume, or one was to be finished that is over.
func (g *group) goesOn(from string, goOn bool) bool {
	if g.moving == nil {
		return goOn
	}
	return g.moving.from == from
}

// Look opens a disk exclusively, and names the programs that have it open.
func (s session) Look(_ context.Context, d plan.Device) (seen plan.Device, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.verified(d.Path, func(now plan.Device) error { seen = now; return nil })
	return seen, err
}
