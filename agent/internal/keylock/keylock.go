// Package keylock keeps calls on the same things apart, and lets those on different ones run beside each other. It does not know what its keys stand for.
package keylock

import (
	"context"
	"slices"
	"sync"
)

// Locks are the locks of all keys. The zero value is ready for use. It is safe for concurrent use.
type Locks struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// Lock takes all keys, or none, and waits for them until the context ends; the error is the context's then. Nobody waits for another in a circle: a caller that
// waits has none of its keys. unlock may be called more than once.
func (l *Locks) Lock(ctx context.Context, keys ...string) (unlock func(), err error) {
	for {
		unlock, busy := l.take(keys)
		if busy == nil {
			return unlock, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Try takes all keys if nobody has one of them, and reports whether it did.
func (l *Locks) Try(keys ...string) (unlock func(), ok bool) {
	unlock, busy := l.take(keys)
	return unlock, busy == nil
}

// Held reports whether somebody has a key at this moment.
func (l *Locks) Held(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held := l.held[key]
	return held
}

// take takes all keys; otherwise it returns what ends when the first that is taken is given back.
func (l *Locks) take(keys []string) (unlock func(), busy <-chan struct{}) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if c, taken := l.held[k]; taken {
			return nil, c
		}
	}
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	for _, k := range keys {
		l.held[k] = make(chan struct{})
	}
	return sync.OnceFunc(func() { l.give(keys) }), nil
}

func (l *Locks) give(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		close(l.held[k])
		delete(l.held, k)
	}
}
