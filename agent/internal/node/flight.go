package node

import (
	"context"
	"sync"
	"time"
)

// observeTimeout bounds one observation.
const observeTimeout = 30 * time.Second

// flight is one look and those who wait for it.
type flight[T any] struct {
	landed chan struct{}
	seen   T
	err    error
}

// flights let one look at the same thing run at a time: two observations at once would find each other's exclusive opens, and a report of
// LVM serves all who wait for it. Whoever asks while a look is under way shares the next one: the present one may have passed already what
// the caller just changed.
type flights[T any] struct {
	observe func(context.Context) (T, error)

	mu            sync.Mutex
	running, next *flight[T]
}

// get returns a look that began after the call.
func (f *flights[T]) get(ctx context.Context) (T, error) {
	fl := f.board(ctx)
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case <-fl.landed:
		return fl.seen, fl.err
	}
}

func (f *flights[T]) board(ctx context.Context) *flight[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = &flight[T]{landed: make(chan struct{})}
		go f.fly(context.WithoutCancel(ctx), f.running)
		return f.running
	}
	if f.next == nil {
		f.next = &flight[T]{landed: make(chan struct{})}
	}
	return f.next
}

// fly looks for as long as somebody waits for it. It ends by itself, whoever asked first.
func (f *flights[T]) fly(ctx context.Context, fl *flight[T]) {
	for fl != nil {
		bounded, cancel := context.WithTimeout(ctx, observeTimeout)
		fl.seen, fl.err = f.observe(bounded)
		cancel()
		close(fl.landed)
		f.mu.Lock()
		fl = f.next
		f.running, f.next = fl, nil
		f.mu.Unlock()
	}
}
