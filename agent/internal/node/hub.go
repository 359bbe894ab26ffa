package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quarry.storage/quarry/agent/internal/node/flight"
	"quarry.storage/quarry/agent/internal/plan"
)

const (
	// quietTime is how long the kernel must be quiet after an event before the node is observed: one plugged disk makes many events.
	quietTime = 60 * time.Millisecond
	// maxDelay bounds the wait when events do not stop.
	maxDelay = 250 * time.Millisecond
	// maxOwn bounds the wait for changes of our own: a disk that is plugged in meanwhile has to be seen within a second.
	maxOwn = 700 * time.Millisecond
	// poolPeriod is how often a node with thin pools is observed without an event: nothing tells when a pool fills.
	poolPeriod = 30 * time.Second
	// blindPeriod is how often a node with a group that LVM could not report is observed without an event: nothing tells when LVM can again.
	blindPeriod = 5 * time.Second
)

// errWatchEnded means that the source of events dried up. The process cannot go on without it.
var errWatchEnded = errors.New("watching the node's devices ended")

// hub observes the node on events, remembers the newest snapshot, and shows it to any number of followers.
type hub struct {
	observer Observer
	onView   func(plan.Snapshot) // may be nil
	flights  flight.Shared[plan.Snapshot]
	memory   memory
	underway underway
	poked    chan struct{}
	done     chan struct{}
	// blindPeriod is shorter in tests.
	blindPeriod time.Duration

	mu      sync.Mutex
	latest  *View
	changed chan struct{} // closed when latest is replaced
	began   time.Time     // when the newest observation began
}

func newHub(observer Observer) *hub {
	h := &hub{
		observer: observer, poked: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}), blindPeriod: blindPeriod,
	}
	h.flights.Observe = h.observeAndShow
	return h
}

// run observes the node at the start, after every burst of events and when poked, until the context ends.
func (h *hub) run(ctx context.Context) error {
	defer close(h.done)
	events, err := h.observer.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch the node: %w", err)
	}
	h.refresh(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-events:
			if !ok && ctx.Err() == nil {
				return errWatchEnded
			}
			if h.observedSince(h.settle(ctx, events)) {
				continue
			}
		case <-h.poked:
		case <-h.due():
		}
		if ctx.Err() != nil {
			return nil
		}
		h.refresh(ctx)
	}
}

// due tells when the node has to be looked at again without an event: soon while LVM cannot report, at times where pools or disks that do
// not answer are, never on other nodes.
func (h *hub) due() <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest == nil || h.latest.err != nil {
		return nil
	}
	if len(h.latest.Snapshot.UnknownGroups) > 0 {
		return time.After(h.blindPeriod)
	}
	for _, d := range h.latest.Snapshot.Devices {
		if d.Type == "disk" && !d.Removable && len(d.Unreadable) > 0 {
			return time.After(poolPeriod)
		}
	}
	for _, g := range h.latest.Snapshot.Groups {
		for _, p := range g.Pools {
			if p.Ours {
				return time.After(poolPeriod)
			}
		}
	}
	return nil
}

// settle waits until no event came for quietTime, at most maxDelay, and no change of our own is under way, at most maxOwn. It returns
// when the last event came.
func (h *hub) settle(ctx context.Context, events <-chan struct{}) time.Time {
	last := time.Now()
	limit, own := time.NewTimer(maxDelay), time.NewTimer(maxOwn)
	defer limit.Stop()
	defer own.Stop()
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	var over <-chan struct{} // nil, which is never ready, until the events have settled
	for {
		select {
		case <-ctx.Done():
			return last
		case <-own.C:
			return last
		case <-over:
			return last
		case <-limit.C:
			over = h.underway.over()
		case <-quiet.C:
			over = h.underway.over()
		case _, ok := <-events:
			if !ok {
				return last
			}
			last = time.Now()
			quiet.Reset(quietTime)
		}
	}
}

// observedSince reports whether an observation that succeeded began after that moment.
func (h *hub) observedSince(event time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.began.After(event)
}

// poke asks for an observation without waiting for it.
func (h *hub) poke() {
	select {
	case h.poked <- struct{}{}:
	default:
	}
}

func (h *hub) refresh(ctx context.Context) {
	if _, err := h.observe(ctx); err != nil && ctx.Err() == nil {
		h.show(View{err: err})
	}
}

// observe returns what the node looks like at a moment not before the call, and shows it to the followers too.
func (h *hub) observe(ctx context.Context) (plan.Snapshot, error) { return h.flights.Get(ctx) }

func (h *hub) observeAndShow(ctx context.Context) (plan.Snapshot, error) {
	at, began := time.Now(), h.memory.begin()
	s, err := h.observer.Observe(ctx)
	if err != nil {
		h.memory.forget()
		return plan.Snapshot{}, fmt.Errorf("observe the node: %w", err)
	}
	s = h.land(began, s)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = at
	return s, nil
}

// underway counts the changes of our own that are under way. They make events by the dozen, and an observation in the middle of them
// reads every disk for a state that is gone a moment later. Each change observes, or knows, its own result.
type underway struct {
	mu    sync.Mutex
	count int
	none  chan struct{} // closed when the last one ends; nil while there is none
}

// begin says that a change begins. The caller says when it ends.
func (u *underway) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count++; u.count == 1 {
		u.none = make(chan struct{})
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.count--; u.count == 0 {
			close(u.none)
			u.none = nil
		}
	}
}

// over is closed when no change is under way.
func (u *underway) over() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.none == nil {
		return closed
	}
	return u.none
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
