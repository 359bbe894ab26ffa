package node

import (
	"context"
	"sync"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
)

// observeTimeout bounds one observation.
const observeTimeout = 30 * time.Second

// flight is one observation and those who wait for it.
type flight struct {
	landed   chan struct{}
	snapshot plan.Snapshot
	err      error
}

// flights let one observation run at a time: two at once would find each other's exclusive opens. Whoever asks while an observation is
// under way shares the next one: the present one may have looked already at what the caller just changed.
type flights struct {
	observe func(context.Context) (plan.Snapshot, error)

	mu            sync.Mutex
	running, next *flight
}

// get returns an observation that began after the call.
func (f *flights) get(ctx context.Context) (plan.Snapshot, error) {
	fl := f.board(ctx)
	select {
	case <-ctx.Done():
		return plan.Snapshot{}, ctx.Err()
	case <-fl.landed:
		return fl.snapshot, fl.err
	}
}

func (f *flights) board(ctx context.Context) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = &flight{landed: make(chan struct{})}
		go f.fly(context.WithoutCancel(ctx), f.running)
		return f.running
	}
	if f.next == nil {
		f.next = &flight{landed: make(chan struct{})}
	}
	return f.next
}

// fly makes observations for as long as somebody waits for one. It ends by itself, whoever asked first.
func (f *flights) fly(ctx context.Context, fl *flight) {
	for fl != nil {
		bounded, cancel := context.WithTimeout(ctx, observeTimeout)
		fl.snapshot, fl.err = f.observe(bounded)
		cancel()
		close(fl.landed)
		f.mu.Lock()
		fl = f.next
		f.running, f.next = fl, nil
		f.mu.Unlock()
	}
}
