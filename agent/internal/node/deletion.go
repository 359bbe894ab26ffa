package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// DeleteVolume removes a volume; one that is to be unused only if what is on it says so, too. It waits a moment for whoever has the volume open, because udev
// looks at one that was just activated, or written to; after that the error is plan.ErrOpen. So it does before a discard for whoever works on the volume for a
// pod: plan.ErrBusy, as of a second call on the volume, which is refused at once. plan.ErrUndiscarded says that a repeated call goes on with the discard,
// plan.ErrInUse that the volume was used and is to be unused, plan.ErrUntold that what is on it cannot be read, or two groups hold it, and plan.ErrUnsure
// that whether it exists is not known. Other errors are those of volume.Delete.
func (e *Engine) DeleteVolume(ctx context.Context, want volume.Spec) error {
	release, err := e.zero.stop(ctx, want.ID)
	if err != nil {
		return err
	}
	defer release()
	if want.OnlyUnused {
		return e.deleteUnused(ctx, want)
	}
	if want.Discard {
		if err := e.discard(ctx, want); err != nil {
			return err
		}
	}
	_, err = e.changeClosed(ctx, want, volume.Delete)
	return err
}

const (
	// openPatience is how long a deletion waits for a volume that is open. On a busy node udev takes a second for its look.
	openPatience = 3 * time.Second
	// openPause is the time between two tries.
	openPause = 500 * time.Millisecond
)

// changeClosed is changeVolume that waits a moment for whoever has the volume open.
func (e *Engine) changeClosed(ctx context.Context, want volume.Spec, decide volume.Decide) (volume.Plan, error) {
	return onceClosed(ctx, func() (volume.Plan, error) { return e.changeVolume(ctx, want, decide) })
}

// errShown means that a call of the CSI services works on the volume.
var errShown = errors.New("it is being made ready for a pod, or taken away from one")

// onceClosed makes a change, and for a moment tries it again while somebody has the volume open, or works on it for a pod.
func onceClosed(ctx context.Context, change func() (volume.Plan, error)) (volume.Plan, error) {
	for end := time.Now().Add(openPatience); ; {
		p, err := change()
		if !errors.Is(err, plan.ErrOpen) && !errors.Is(err, errShown) || time.Now().After(end) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, err
		case <-time.After(openPause):
		}
	}
}

// discardPatience is how long a call discards before it has its caller come again.
const discardPatience = 20 * time.Second

// discard has the disks forget a volume that may be removed now. A device that cannot, or fails at it, keeps no volume from being removed, nor does a mark that
// cannot be written. It does not hold the lock of the group, so that others work on that meanwhile. That it began is on the volume before. How far it is is remembered for the
// next call; after a death of the agent it begins anew.
func (e *Engine) discard(ctx context.Context, want volume.Spec) error {
	p, err := e.discarding(ctx, want)
	switch log := logr.FromContextOrDiscard(ctx); {
	case err != nil && len(p.Steps) == 0, ctx.Err() != nil, errors.Is(err, plan.ErrOpen), errors.Is(err, plan.ErrInUse), errors.Is(err, plan.ErrBusy):
		// Nothing was tried, or somebody has it open or is about to: the same speaks against the removal.
		return cmp.Or(err, ctx.Err())
	case err != nil:
		// Without the mark nothing is discarded. Whether the volume may be removed is decided anew next: where the metadata of a group is full, only that makes room.
		log.Info("Removing a volume without discarding it", "volumeGroup", want.Group, "volume", want.Name, "why", err.Error())
		return nil
	}
	v, begun := p.Volume, time.Now()
	at, _ := e.discarded.Load(v.UUID)
	from, _ := at.(int64)
	for {
		next := volume.DiscardNext(want.Group, p, from)
		if len(next.Steps) == 0 {
			break
		}
		if time.Since(begun) > discardPatience {
			e.discarded.Store(v.UUID, from)
			return fmt.Errorf("volume %s: %d of %d bytes are discarded: %w", v.Name, from, v.SizeBytes, plan.ErrUndiscarded)
		}
		err := e.zeroSlice(ctx, next)
		switch {
		case ctx.Err() != nil || errors.Is(err, plan.ErrInUse):
			e.discarded.Store(v.UUID, from)
			return cmp.Or(err, ctx.Err())
		case err != nil:
			logr.FromContextOrDiscard(ctx).Info("Removing a volume without discarding all of it", "volumeGroup", want.Group, "volume", v.Name, "why", err.Error())
			e.discarded.Delete(v.UUID)
			return nil
		}
		from = next.Steps[0].(volume.DiscardLV).To
	}
	e.discarded.Delete(v.UUID)
	return nil
}

// discarding marks a volume before its first discard. A call that makes the volume ready for a pod meanwhile has looked for the mark before, and may mount it
// afterwards: while there is one, nothing is marked. Later ones see the mark. Whoever takes the volume away from a pod works between two tries.
func (e *Engine) discarding(ctx context.Context, want volume.Spec) (p volume.Plan, err error) {
	_, err = onceClosed(ctx, func() (volume.Plan, error) {
		if e.cfg.Uses != nil {
			unlock, err := e.cfg.Uses.TryLock(want.ID)
			if err != nil {
				return volume.Plan{}, fmt.Errorf("volume %s in group %s: %w: %w", want.Name, want.Group, errShown, plan.ErrBusy)
			}
			defer unlock()
		}
		return e.changeVolume(ctx, want, func(seen plan.Snapshot, want volume.Spec) (_ volume.Plan, err error) {
			p, err = volume.Discarding(seen, want)
			return p, err
		})
	})
	return p, err
}

// deleteUnused removes a volume that nobody used. The mark of a new volume is not enough, because it comes back with older metadata: what is on
// the volume has to be what first use writes over.
func (e *Engine) deleteUnused(ctx context.Context, want volume.Spec) error {
	if e.cfg.Contents == nil {
		return fmt.Errorf("volume %s in group %s: what is on it %w: nothing here can look at it", want.Name, want.Group, plan.ErrUntold)
	}
	// After a boot no volume has a device. One that is not to be removed gets none.
	_, err := e.changeClosed(ctx, want, func(seen plan.Snapshot, want volume.Spec) (volume.Plan, error) {
		p, err := volume.Delete(seen, want)
		if err != nil || len(p.Steps) == 0 {
			return p, err
		}
		return volume.Activate(seen, want)
	})
	if err != nil {
		return err
	}
	_, err = e.changeClosed(ctx, want, func(seen plan.Snapshot, want volume.Spec) (volume.Plan, error) {
		p, err := volume.Delete(seen, want)
		if err != nil || len(p.Steps) == 0 {
			return p, err
		}
		return p, e.looksUnused(ctx, seen, want)
	})
	return err
}

// looksUnused refuses a volume by what is on it. Whoever reads a suspended device waits, and a stale one leads to another disk.
func (e *Engine) looksUnused(ctx context.Context, seen plan.Snapshot, want volume.Spec) error {
	v, err := lookup(seen, want)
	if err != nil {
		return err
	}
	if !v.Active || v.Suspended || v.Stale {
		return fmt.Errorf("volume %s in group %s: what is on it %w: its device is away or suspended, or leads to another disk",
			want.Name, want.Group, plan.ErrUntold)
	}
	return e.cfg.Contents.Unused(ctx, want.Group, v)
}
