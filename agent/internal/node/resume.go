package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/claim"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// eachView does something for the newest view of the node at the start and for later ones, until the engine stops. What does not go well is
// tried again after a pause: nothing may happen that shows another view.
func (e *Engine) eachView(ctx context.Context, pause time.Duration, do func(context.Context, plan.Snapshot) (well bool)) {
	for after := uint64(0); ; {
		v, err := e.hub.next(ctx, after)
		if v.Number == 0 {
			return
		}
		if err == nil && !do(ctx, v.Snapshot) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
				continue
			}
		}
		after = v.Number
	}
}

// settleSeen settles the groups of a snapshot of which that is decided, and reports whether that worked. A command that is under way leaves a group
// for a moment as one does that was cut off: each group is looked at again under its lock, and LVM waits for the commands of others before it
// reports.
func (e *Engine) settleSeen(what string, decide func(s plan.Snapshot, groupUUID string) plan.Plan) func(context.Context, plan.Snapshot) bool {
	return func(ctx context.Context, s plan.Snapshot) bool {
		well := true
		for _, g := range s.Groups {
			if len(decide(s, g.UUID).Steps) == 0 {
				continue
			}
			if err := e.settleGroup(ctx, g, decide); err != nil {
				logr.FromContextOrDiscard(ctx).Error(err, what, "volumeGroup", g.Name)
				well = false
			}
		}
		return well
	}
}

// keepSeen keeps the host from activating what is in the groups that a snapshot shows. It tries once for each, and forgets those that are not seen: it
// is a precaution, and what speaks against it once may do so for ever.
func (e *Engine) keepSeen() func(context.Context, plan.Snapshot) bool {
	tried := map[string]bool{}
	return func(ctx context.Context, s plan.Snapshot) bool {
		forgetUnseen(tried, s)
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

// measurePause is how many blind periods a pool is left alone that could not be activated: LVM looks at all of its metadata each time.
const measurePause = 6

// measurePools activates the thin pools of which a snapshot does not show how full they are, and reports whether that worked. It does so once for each
// group: a pool that a person deactivates later, as for a repair, stays as it is.
func (e *Engine) measurePools() func(context.Context, plan.Snapshot) bool {
	done := map[string]bool{}
	return func(ctx context.Context, s plan.Snapshot) bool {
		forgetUnseen(done, s)
		well := true
		for _, g := range s.Groups {
			if done[g.UUID] || len(g.Pools) == 0 || g.Access != plan.AccessOwn {
				continue
			}
			if len(volume.Measure(s, g.UUID).Steps) > 0 {
				if err := e.settleGroup(ctx, g, volume.Measure); err != nil {
					logr.FromContextOrDiscard(ctx).Error(err, "Activating a thin pool: how full it is is not known", "volumeGroup", g.Name)
					well = false
					continue
				}
			}
			// One that lacks a disk waits for that.
			done[g.UUID] = !slices.ContainsFunc(g.Pools, func(p plan.Pool) bool { return p.Ours && p.UsageUnknown && p.Health+p.Damage != "" })
		}
		return well
	}
}

// forgetUnseen forgets the groups that a snapshot does not show, by their UUIDs.
func forgetUnseen(groups map[string]bool, s plan.Snapshot) {
	maps.DeleteFunc(groups, func(uuid string, _ bool) bool {
		return !slices.ContainsFunc(s.Groups, func(g plan.Group) bool { return g.UUID == uuid })
	})
}
