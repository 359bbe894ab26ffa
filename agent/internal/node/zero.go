package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

const (
	// zeroPatience is how long a call waits for its volume to be zeroed. A small one is made in one call then.
	zeroPatience = 3 * time.Second
	// zeroTimeout bounds the zeroing of one slice; it is far longer than a slow disk takes.
	zeroTimeout = time.Hour
	// zeroTurns is how many volumes are zeroed at a time. The others wait for a slice to end.
	zeroTurns = 2
	// zeroAsked is how long a call counts as the reason to begin. Whoever wants a volume repeats the call until it succeeds.
	zeroAsked = 10 * time.Minute
	// zeroInUse is the pause after a volume was found open: udev looks at a new one for a moment.
	zeroInUse = time.Second
)

// zeroer knows which volumes are being zeroed. That is no state: the volumes themselves say what is left to do. But they say it by tags, which
// come back with older metadata of LVM, over a volume that was used since. So only a call that waits for the volume lets it be zeroed.
type zeroer struct {
	turns chan struct{}
	wake  chan struct{} // a call began to wait for a volume
	work  sync.WaitGroup

	mu      sync.Mutex
	asked   map[string]time.Time // when a call waited for a volume or a tail, by what awaited returns
	tasks   map[string]*zeroTask // by the UUID of the group and the name of the volume
	stopped map[string]int       // volumes that must not be zeroed now, by id
}

// zeroTask is the zeroing of one volume.
type zeroTask struct {
	id     string // of the volume, or of the one whose tail it is
	cancel context.CancelFunc
	done   chan struct{}
}

func newZeroer() *zeroer {
	return &zeroer{
		turns: make(chan struct{}, zeroTurns), wake: make(chan struct{}, 1),
		asked: map[string]time.Time{}, tasks: map[string]*zeroTask{}, stopped: map[string]int{},
	}
}

// awaited is what a call waits for. One that waits for the tail of a volume is no reason to zero the volume.
func awaited(v plan.Volume) string {
	if v.TailOf != "" {
		return plan.TagTailOf + v.TailOf
	}
	return plan.TagVolume + v.ID
}

// ask notes that a call waits for a volume of that id, or for its tail.
func (z *zeroer) ask(id, what string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked[what] = time.Now()
	for _, t := range z.tasks {
		if t.id == id {
			return
		}
	}
	select {
	case z.wake <- struct{}{}:
	default:
	}
}

// isAsked reports whether a call waits for a volume or a tail.
func (z *zeroer) isAsked(what string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return time.Since(z.asked[what]) < zeroAsked
}

// begin reports whether the caller is to zero the volume: a call waits for it, nobody zeroes it, and it is not stopped. One call is a reason to
// do so once.
func (z *zeroer) begin(ctx context.Context, key, id, what string) (_ context.Context, end func(), ok bool) {
	asked := z.isAsked(what)
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.tasks[key] != nil || z.stopped[id] > 0 || !asked {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &zeroTask{id: id, cancel: cancel, done: make(chan struct{})}
	z.tasks[key] = t
	return ctx, func() {
		z.mu.Lock()
		defer z.mu.Unlock()
		cancel()
		close(t.done)
		delete(z.tasks, key)
		delete(z.asked, what)
	}, true
}

// stop ends the zeroing of a volume and of its tail, and keeps both from being zeroed until it is released. Whoever removes a volume finds its
// device closed.
func (z *zeroer) stop(ctx context.Context, id string) (release func(), err error) {
	z.mu.Lock()
	z.stopped[id]++
	var running []*zeroTask
	for _, t := range z.tasks {
		if t.id == id {
			t.cancel()
			running = append(running, t)
		}
	}
	z.mu.Unlock()
	release = func() {
		z.mu.Lock()
		defer z.mu.Unlock()
		if z.stopped[id]--; z.stopped[id] == 0 {
			delete(z.stopped, id)
		}
	}
	for _, t := range running {
		select {
		case <-t.done:
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}

// whenZeroed is changeVolume that waits a moment for what has to be zeroed first. It lets nothing else be zeroed.
func (e *Engine) whenZeroed(ctx context.Context, want volume.Spec, decide volume.Decide, what string) (volume.Plan, error) {
	patient, cancel := context.WithTimeout(ctx, zeroPatience)
	defer cancel()
	for {
		p, err := e.changeVolume(ctx, want, decide)
		if !errors.Is(err, plan.ErrUnzeroed) {
			return p, err
		}
		e.zero.ask(want.ID, what)
		if !e.zeroedSoon(patient, want.ID) {
			return p, err
		}
	}
}

// zeroedSoon reports whether a volume, and what it grows by, is zeroed before the context ends.
func (e *Engine) zeroedSoon(ctx context.Context, id string) bool {
	for after := uint64(0); ; {
		v, err := e.hub.next(ctx, after)
		if err != nil {
			return false
		}
		if !volume.Awaits(v.Snapshot, id) {
			return true
		}
		after = v.Number
	}
}

// zeroAskedFor looks at the node whenever a call begins to wait for a volume, until the engine stops: no new view may come of that.
func (e *Engine) zeroAskedFor(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.zero.wake:
			// The call is repeated if this fails.
			if s, err := e.hub.observe(ctx); err == nil {
				e.zeroSeen(ctx, s)
			}
		}
	}
}

// zeroSeen begins to zero what a snapshot shows as unzeroed and a call waits for, and removes tails whose volumes are gone. It reports whether
// all went well.
func (e *Engine) zeroSeen(ctx context.Context, s plan.Snapshot) bool {
	log, well := logr.FromContextOrDiscard(ctx), true
	for _, g := range s.Groups {
		if len(volume.Orphans(s, g.UUID).Steps) > 0 {
			if err := e.settleGroup(ctx, g, volume.Orphans); err != nil {
				log.Error(err, "Removing tails of volumes that are gone", "volumeGroup", g.Name)
				well = false
			}
		}
		for _, v := range volume.Unzeroed(g) {
			id := v.ID + v.TailOf
			task, end, ok := e.zero.begin(ctx, g.UUID+"/"+v.Name, id, awaited(v))
			if !ok {
				// What is stopped is removed, or looked at again.
				well = well && !e.zero.isStopped(id)
				continue
			}
			e.zero.work.Go(func() {
				defer end()
				e.zeroUntilDone(task, g, v)
			})
		}
	}
	return well
}

// isStopped reports whether a volume must not be zeroed now.
func (z *zeroer) isStopped(id string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.stopped[id] > 0
}

// zeroUntilDone zeroes a volume, and tries again what fails. One that is open is not waited for after calls ceased to wait for it: whoever uses it may
// close it later, and what is on it is that user's.
func (e *Engine) zeroUntilDone(ctx context.Context, g plan.Group, v plan.Volume) {
	log := logr.FromContextOrDiscard(ctx).WithValues("volumeGroup", g.Name, "volume", v.Name)
	log.V(1).Info("Zeroing volume")
	for {
		err := e.zeroVolume(ctx, g, v.Name)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Error(err, "Zeroing volume")
		pause := e.hub.blindPeriod
		if errors.Is(err, plan.ErrInUse) {
			if !e.zero.isAsked(awaited(v)) {
				return
			}
			pause = min(pause, zeroInUse)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// zeroVolume zeroes a volume from where it was when that was last written down. It holds the lock of the group only to write that down: others
// work on the group meanwhile.
func (e *Engine) zeroVolume(ctx context.Context, g plan.Group, name string) error {
	for uuid, upTo := "", int64(0); ; {
		v, err := e.prepareZeroing(ctx, g, name, uuid, upTo)
		if err != nil || !v.ToZero() {
			return err
		}
		uuid, upTo = v.UUID, v.ZeroedBytes
		for {
			p := volume.ZeroNext(g, v, upTo)
			if len(p.Steps) == 0 {
				break
			}
			if err := e.zeroSlice(ctx, p); err != nil {
				return err
			}
			upTo = p.Steps[0].(volume.ZeroLV).To
		}
	}
}

// prepareZeroing writes down how far a volume is zeroed, and makes its device exist. It returns the volume; an empty one when it is gone.
func (e *Engine) prepareZeroing(ctx context.Context, g plan.Group, name, uuid string, upTo int64) (v plan.Volume, err error) {
	err = e.onGroup(ctx, g.Name, func(seen plan.Snapshot) error {
		p, there := volume.Prepare(seen, g.UUID, name, uuid, upTo)
		if !there {
			// It was removed, or used through another agent: what was remembered is not what is there.
			e.hub.poke()
			return nil
		}
		if v = p.Volume; uuid == "" && v.Open {
			return fmt.Errorf("volume %s: %w: it is open, and may be used", name, plan.ErrInUse)
		}
		return e.performVolume(ctx, seen, volume.Spec{Group: g.Name}, p)
	})
	return v, err
}

// zeroSlice zeroes or discards a slice of a volume when its turn comes. It ends soon after the context does.
func (e *Engine) zeroSlice(ctx context.Context, p plan.Plan) error {
	select {
	case e.zero.turns <- struct{}{}:
		defer func() { <-e.zero.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, zeroTimeout)
	defer cancel()
	return e.cfg.Applier.Apply(ctx, p)
}
