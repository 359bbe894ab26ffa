package node

import (
	"context"
	"errors"
	"reflect"

	"quarry.storage/quarry/agent/internal/plan"
)

// ErrStopping means that the engine stops.
var ErrStopping = errors.New("the agent stops")

// View is what the node looked like at one moment. It is shared: nobody changes what it holds.
type View struct {
	// Number grows with every view that differs from the one before.
	Number   uint64
	Snapshot plan.Snapshot
	err      error
}

// show replaces the newest view when what was seen differs. Observations come one after the other, so a later one is newer.
func (h *hub) show(v View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.latest; old != nil {
		if old.err == nil && v.err == nil && reflect.DeepEqual(old.Snapshot, v.Snapshot) {
			return
		}
		v.Number = old.Number
	}
	v.Number++
	h.latest = &v
	close(h.changed)
	h.changed = make(chan struct{})
	if v.err == nil && h.onView != nil {
		h.onView(v.Snapshot)
	}
}

// number is that of the newest view.
func (h *hub) number() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest == nil {
		return 0
	}
	return h.latest.Number
}

// start is the number after which a new follower wants views. It is not shown an error that was seen earlier: the node is observed
// again instead.
func (h *hub) start() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest == nil || h.latest.err == nil {
		return 0
	}
	h.poke()
	return h.latest.Number
}

// next waits for a view later than the given number.
func (h *hub) next(ctx context.Context, after uint64) (View, error) {
	for {
		h.mu.Lock()
		v, changed := h.latest, h.changed
		h.mu.Unlock()
		if v != nil && v.Number > after {
			return *v, v.err
		}
		select {
		case <-ctx.Done():
			return View{}, ctx.Err()
		case <-h.done:
			return View{}, ErrStopping
		case <-changed:
		}
	}
}

// follow calls send for every view until the context ends, the engine stops, or the node cannot be observed.
func (h *hub) follow(ctx context.Context, send func(View) error) error {
	for after := h.start(); ; {
		v, err := h.next(ctx, after)
		if err != nil {
			return err
		}
		if err := send(v); err != nil {
			return err
		}
		after = v.Number
	}
}
