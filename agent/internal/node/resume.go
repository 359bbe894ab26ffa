package node

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/claim"
	"quarry.storage/quarry/agent/internal/plan/move"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// eachView does something for the newest view of the node at the start and for later ones, until the engine stops. What does not go well is
// tried again after a while: nothing may happen that shows another view.
func (e *Engine) eachView(ctx context.Context, do func(context.Context, plan.Snapshot) (well bool)) {
	for after := uint64(0); ; {
		v, err := e.hub.next(ctx, after)
		if v.Number == 0 {
			return
		}
		if err == nil && !do(ctx, v.Snapshot) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(e.hub.blindPeriod):
				continue
			}
		}
		after = v.Number
	}
}

// resumeSeen resumes what a snapshot shows as suspended, and reports whether that worked. A command that is under way suspends a volume for a
// moment too: each group is looked at again under its lock, and LVM waits for the commands of others before it reports.
func (e *Engine) resumeSeen(ctx context.Context, s plan.Snapshot) bool {
	log, well := logr.FromContextOrDiscard(ctx), true
	for _, g := range s.Groups {
		if len(volume.Resume(s, g.UUID).Steps) == 0 {
			continue
		}
		if err := e.settleGroup(ctx, g, volume.Resume); err != nil {
			log.Error(err, "Resuming volumes", "volumeGroup", g.Name)
			well = false
		}
	}
	return well
}

// finishMoves finishes the moves of extents that a snapshot shows as cut off, and reports whether that worked. One that is under way holds the
// lock of its group.
func (e *Engine) finishMoves(ctx context.Context, s plan.Snapshot) bool {
	log, well := logr.FromContextOrDiscard(ctx), true
	for _, g := range s.Groups {
		if len(move.Finish(s, g.UUID).Steps) == 0 {
			continue
		}
		if err := e.settleGroup(ctx, g, move.Finish); err != nil {
			log.Error(err, "Finishing a move of extents that was cut off", "volumeGroup", g.Name)
			well = false
		}
	}
	return well
}

// keepSeen keeps the host from activating what is in the groups that a snapshot shows. It tries once for each, and forgets those that are not seen: it
// is a precaution, and what speaks against it once may do so for ever.
func (e *Engine) keepSeen() func(context.Context, plan.Snapshot) bool {
	tried := map[string]bool{}
	return func(ctx context.Context, s plan.Snapshot) bool {
		for uuid := range tried {
			if !slices.ContainsFunc(s.Groups, func(g plan.Group) bool { return g.UUID == uuid }) {
				delete(tried, uuid)
			}
		}
		for _, g := range s.Groups {
			if tried[g.UUID] || len(claim.Keep(s, g.UUID).Steps) == 0 {
				continue
			}
			tried[g.UUID] = true
			if err := e.settleGroup(ctx, g, claim.Keep); err != nil {
				logr.FromContextOrDiscard(ctx).Error(err, "Stopping the autoactivation of a volume group", "volumeGroup", g.Name)
			}
		}
		return true
	}
}

// settleGroup decides on a group as it is under its lock, and does it.
func (e *Engine) settleGroup(ctx context.Context, g plan.Group, decide func(s plan.Snapshot, groupUUID string) plan.Plan) error {
	return e.onGroup(ctx, g.Name, func(seen plan.Snapshot) error {
		p := decide(seen, g.UUID)
		if len(p.Steps) == 0 {
			return nil
		}
		if err := e.apply(ctx, p); err != nil {
			return err
		}
		e.hub.poke()
		return nil
	})
}

// onGroup does something with a fresh look at a group, under its lock.
func (e *Engine) onGroup(ctx context.Context, group string, do func(seen plan.Snapshot) error) error {
	unlock, err := e.locks.lock(ctx, groupKey(group))
	if err != nil {
		return err
	}
	defer unlock()
	seen, err := e.hub.current(ctx)
	if err != nil {
		return err
	}
	if seen, err = e.refresh(ctx, seen, group); err != nil {
		return err
	}
	return do(seen)
}

// measurePools activates the thin pools of which it is not known how full they are, at the start and whenever such a one appears, until the
// engine stops. It does so once for each: a pool that a person deactivates later, as for a repair, stays as it is.
func (e *Engine) measurePools(ctx context.Context) {
	done := map[string]bool{}
	for after := uint64(0); ; {
		v, err := e.hub.next(ctx, after)
		if v.Number == 0 {
			return
		}
		if err == nil && !e.measureSeen(ctx, v.Snapshot, done) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(measurePause * e.hub.blindPeriod):
				continue
			}
		}
		after = v.Number
	}
}

// measurePause is how many blind periods a pool is left alone that could not be activated: LVM looks at all of its metadata each time.
const measurePause = 6

// measureSeen activates what a snapshot shows and is not done yet, and reports whether that worked.
func (e *Engine) measureSeen(ctx context.Context, s plan.Snapshot, done map[string]bool) bool {
	log, well := logr.FromContextOrDiscard(ctx), true
	for uuid := range done {
		if !slices.ContainsFunc(s.Groups, func(g plan.Group) bool { return g.UUID == uuid }) {
			delete(done, uuid)
		}
	}
	for _, g := range s.Groups {
		if done[g.UUID] || len(g.Pools) == 0 || g.Access != plan.AccessOwn {
			continue
		}
		if len(volume.Measure(s, g.UUID).Steps) > 0 {
			if err := e.settleGroup(ctx, g, volume.Measure); err != nil {
				log.Error(err, "Activating a thin pool: how full it is is not known", "volumeGroup", g.Name)
				well = false
				continue
			}
		}
		// One that lacks a disk waits for that.
		done[g.UUID] = !slices.ContainsFunc(g.Pools, func(p plan.Pool) bool { return p.Ours && p.UsageUnknown && p.Health+p.Damage != "" })
	}
	return well
}
