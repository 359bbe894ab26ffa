// Package flight lets those who want to look at the same thing share one look.
package flight

import (
	"context"
	"sync"
	"time"
)

// Timeout bounds one look.
const Timeout = 30 * time.Second

// flight is one look and those who wait for it.
type flight[T any] struct {
	landed chan struct{}
	seen   T
	err    error
}

// Shared lets one look at the same thing run at a time: two observations at once would find each other's exclusive opens, and a report of
// LVM serves all who wait for it. Whoever asks while a look is under way shares the next one: the present one may have passed already what
// the caller just changed.
type Shared[T any] struct {
	// Observe looks. Its context ends with the timeout, and not with those of the callers.
	Observe func(context.Context) (T, error)

	mu            sync.Mutex
	running, next *flight[T]
}

// Get returns a look that began after the call. The error is that of the look, or of the context if that ends first.
func (f *Shared[T]) Get(ctx context.Context) (T, error) {
	fl := f.board(ctx)
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case <-fl.landed:
		return fl.seen, fl.err
	}
}

// Awaited reports whether somebody waits for a look that has not begun yet.
func (f *Shared[T]) Awaited() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next != nil
}

func (f *Shared[T]) board(ctx context.Context) *flight[T] {
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
func (f *Shared[T]) fly(ctx context.Context, fl *flight[T]) {
	for fl != nil {
		bounded, cancel := context.WithTimeout(ctx, Timeout)
		fl.seen, fl.err = f.Observe(bounded)
		cancel()
		close(fl.landed)
		f.mu.Lock()
		fl = f.next
		f.running, f.next = fl, nil
		f.mu.Unlock()
	}
}
