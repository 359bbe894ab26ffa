package server

import (
	"context"
	"errors"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// decideVolume is one of the decisions of package plan on one volume.
type decideVolume func(plan.Snapshot, volume.Spec) (volume.Plan, error)

// changeVolume is the recipe of every call on a volume. It decides on what is remembered and runs the commands at once: LVM looks
// again, in the same process, at everything that such a decision rests on, the tag of the group, the tag of the volume, the name, the
// room. Whatever is not a change, a refusal or "it is there already", is said only after the group was observed afresh; so is
// what LVM found to be otherwise. One that resizes observes first, for lvextend cannot be told which tag to look for.
func (s *Server) changeVolume(ctx context.Context, want volume.Spec, decide decideVolume) (plan.Volume, error) {
	unlock, err := s.lockVolume(ctx, want.Group, want.Name)
	if err != nil {
		return plan.Volume{}, err
	}
	defer unlock()
	defer s.hub.changes.begin()()
	seen, err := s.hub.current(ctx)
	if err != nil {
		return plan.Volume{}, err
	}
	p, err := decide(seen, want)
	if err != nil || !guarded(p.Plan) {
		if seen, err = s.refresh(ctx, seen, want.Group); err != nil {
			return plan.Volume{}, err
		}
		if p, err = decide(seen, want); err != nil {
			return plan.Volume{}, err
		}
	}
	err = s.performVolume(ctx, seen, want, p)
	if !looksStale(err) {
		return p.Volume, err
	}
	if seen, err = s.refresh(ctx, seen, want.Group); err != nil {
		return plan.Volume{}, err
	}
	if p, err = decide(seen, want); err != nil {
		return plan.Volume{}, err
	}
	return p.Volume, s.performVolume(ctx, seen, want, p)
}

// lockVolume refuses a second call on the same volume, and lets calls on other volumes of the group wait for their turn.
func (s *Server) lockVolume(ctx context.Context, group, name string) (unlock func(), err error) {
	unlockVolume, err := s.locks.tryLock("volume " + group + "/" + name)
	if err != nil {
		return nil, err
	}
	unlockGroup, err := s.locks.lock(ctx, groupKey(group))
	if err != nil {
		unlockVolume()
		return nil, err
	}
	return func() { unlockGroup(); unlockVolume() }, nil
}

func groupKey(group string) string { return "group " + group }

// guarded says whether the plan changes something, and every step of it looks for itself at what it may change. The growing of a copy
// follows its making in the same plan.
func guarded(p plan.Plan) bool {
	for i, step := range p.Steps {
		if _, extends := step.(volume.ExtendLV); extends && i == 0 {
			return false
		}
	}
	return len(p.Steps) > 0
}

// looksStale says whether LVM found something else than what was remembered.
func looksStale(err error) bool {
	return errors.Is(err, plan.ErrAlreadyExists) || errors.Is(err, plan.ErrInUse) || errors.Is(err, plan.ErrRefused) || errors.Is(err, plan.ErrNoRoom)
}

// refresh observes one group afresh, or everything when the group is not known, or not what it was.
func (s *Server) refresh(ctx context.Context, seen plan.Snapshot, group string) (plan.Snapshot, error) {
	if s.cfg.Groups == nil {
		return s.hub.observe(ctx)
	}
	for _, g := range seen.Groups {
		if g.Name != group {
			continue
		}
		if now, err := s.cfg.Groups.ObserveGroup(ctx, g); err == nil {
			return volume.WithGroup(seen, now), nil
		}
	}
	return s.hub.observe(ctx)
}

// performVolume applies the plan and remembers what it made of the volume.
func (s *Server) performVolume(ctx context.Context, seen plan.Snapshot, want volume.Spec, p volume.Plan) error {
	if len(p.Steps) == 0 {
		return nil
	}
	if err := s.apply(ctx, p.Plan); err != nil {
		s.hub.poke()
		return err
	}
	uuid := ""
	for _, g := range seen.Groups {
		if g.Name == want.Group {
			uuid = g.UUID
		}
	}
	s.hub.fold(func(was plan.Snapshot) plan.Snapshot {
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

// apply performs a plan to its end, also when the caller goes away.
func (s *Server) apply(ctx context.Context, p plan.Plan) error {
	log := logr.FromContextOrDiscard(ctx)
	for _, step := range p.Steps {
		log.V(1).Info("Planned step", "step", step.String(), "reason", step.Why())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTimeout)
	defer cancel()
	return s.cfg.Applier.Apply(ctx, p)
}

// perform applies a plan and answers what is seen on the node afterwards.
func (s *Server) perform(ctx context.Context, p plan.Plan) (plan.Snapshot, error) {
	if err := s.apply(ctx, p); err != nil {
		s.hub.poke()
		return plan.Snapshot{}, err
	}
	return s.hub.observe(context.WithoutCancel(ctx))
}
