package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"quarry.storage/quarry/agent/internal/plan"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// quietTime is how long the kernel must be quiet after an event before the node is observed: one plugged disk makes many.
	quietTime = 60 * time.Millisecond
	// maxDelay bounds the wait when events do not stop.
	maxDelay = 250 * time.Millisecond
	// maxHold bounds the wait for changes of our own: a disk that is plugged in meanwhile shall be seen within a second.
	maxHold = 700 * time.Millisecond
	// poolPeriod is how often a node with thin pools is observed without an event: nothing tells when a pool fills.
	poolPeriod = 30 * time.Second
)

// errWatchEnded means that the source of events dried up; the process cannot go on without it.
var errWatchEnded = errors.New("watching the node's devices ended")

// view is what the node looked like at one moment, as the watchers see it.
type view struct {
	// number grows with every view that differs from the one before.
	number  uint64
	devices *agentv1.WatchDevicesResponse
	groups  *agentv1.WatchVolumeGroupsResponse
	// deviceBytes and groupBytes are the same, marshalled, for comparing.
	deviceBytes, groupBytes []byte
	err                     error
}

// hub observes the node on events and keeps the newest view for any number of watchers. A watcher that is slow misses views, never
// the newest.
type hub struct {
	observer Observer
	policy   plan.Policy
	onView   func([]*agentv1.Device)
	flights  flights
	memory   memory
	changes  changes
	poked    chan struct{}
	done     chan struct{}

	mu      sync.Mutex
	latest  *view
	changed chan struct{} // closed when latest is replaced
	began   time.Time     // when the newest observation began
}

func newHub(observer Observer, policy plan.Policy, onView func([]*agentv1.Device)) *hub {
	h := &hub{
		observer: observer, policy: policy, onView: onView,
		poked: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
	}
	h.flights.observe = h.observeAndShow
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
		case <-h.poolsDue():
		}
		if ctx.Err() != nil {
			return nil
		}
		h.refresh(ctx)
	}
}

// poolsDue returns when the node's thin pools have to be looked at again: never where there are none.
func (h *hub) poolsDue() <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest == nil {
		return nil
	}
	for _, g := range h.latest.groups.GetGroups() {
		if len(g.GetThinPools()) > 0 {
			return time.After(poolPeriod)
		}
	}
	return nil
}

// settle waits until no event came for quietTime, at most maxDelay, and no change of our own is under way, at most maxHold. It answers
// when the last event came.
func (h *hub) settle(ctx context.Context, events <-chan struct{}) time.Time {
	last := time.Now()
	limit, held := time.NewTimer(maxDelay), time.NewTimer(maxHold)
	defer limit.Stop()
	defer held.Stop()
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	var over <-chan struct{} // nil, which is never ready, until the events have settled
	for {
		select {
		case <-ctx.Done():
			return last
		case <-held.C:
			return last
		case <-over:
			return last
		case <-limit.C:
			over = h.changes.over()
		case <-quiet.C:
			over = h.changes.over()
		case _, ok := <-events:
			if !ok {
				return last
			}
			last = time.Now()
			quiet.Reset(quietTime)
		}
	}
}

// observedSince says whether an observation that succeeded began after that moment.
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
		h.show(&view{err: err})
	}
}

// observe answers what the node looks like at a moment not before the call, and shows it to the watchers too.
func (h *hub) observe(ctx context.Context) (plan.Snapshot, error) { return h.flights.get(ctx) }

func (h *hub) observeAndShow(ctx context.Context) (plan.Snapshot, error) {
	at, began := time.Now(), h.memory.begin()
	s, err := h.observer.Observe(ctx)
	if err != nil {
		h.memory.forget()
		return plan.Snapshot{}, fmt.Errorf("observe the node: %w", err)
	}
	if s, err = h.land(began, s); err != nil {
		return plan.Snapshot{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = at
	return s, nil
}

func newView(s plan.Snapshot, p plan.Policy) (*view, error) {
	v := &view{
		devices: &agentv1.WatchDevicesResponse{Devices: toDevices(s, p)},
		groups:  &agentv1.WatchVolumeGroupsResponse{Groups: toGroups(s)},
	}
	var err, groupErr error
	opts := proto.MarshalOptions{Deterministic: true}
	v.deviceBytes, err = opts.Marshal(v.devices)
	v.groupBytes, groupErr = opts.Marshal(v.groups)
	if err := errors.Join(err, groupErr); err != nil {
		return nil, fmt.Errorf("marshal the view: %w", err)
	}
	return v, nil
}

// show replaces the newest view when what was seen differs. Observations come one after the other, so a later one is newer.
func (h *hub) show(v *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.latest; old != nil {
		if old.err == nil && v.err == nil && bytes.Equal(old.deviceBytes, v.deviceBytes) && bytes.Equal(old.groupBytes, v.groupBytes) {
			return
		}
		v.number = old.number
	}
	v.number++
	h.latest = v
	close(h.changed)
	h.changed = make(chan struct{})
	if v.err == nil {
		h.onView(v.devices.GetDevices())
	}
}

// start is the number after which a new watcher wants views. An error that was seen earlier is not shown to it: the node is
// observed again instead.
func (h *hub) start() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest == nil || h.latest.err == nil {
		return 0
	}
	h.poke()
	return h.latest.number
}

// next waits for a view later than the given number.
func (h *hub) next(ctx context.Context, after uint64) (*view, error) {
	for {
		h.mu.Lock()
		v, changed := h.latest, h.changed
		h.mu.Unlock()
		if v != nil && v.number > after {
			return v, v.err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-h.done:
			return nil, errStopping
		case <-changed:
		}
	}
}

// follow calls send for every view until the context ends, the agent stops, or the node cannot be observed.
func (h *hub) follow(ctx context.Context, send func(*view) error) error {
	for after := h.start(); ; {
		v, err := h.next(ctx, after)
		if err != nil {
			return err
		}
		if err := send(v); err != nil {
			return err
		}
		after = v.number
	}
}
