package node

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"quarry.storage/quarry/agent/internal/plan"
)

// locks are taken per group, per device and per volume. Nobody waits for several: a caller that finds one taken is told to come again.
// Only calls on volumes and pools wait for their group, one after the other: many are made at a time.
type locks struct {
	mu   sync.Mutex
	held map[string][]chan struct{} // those who wait, by key
}

// tryLock takes all keys, or none. The first key that is taken is named in the error.
func (l *locks) tryLock(keys ...string) (unlock func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, k := range keys {
		if _, taken := l.held[k]; taken {
			return nil, fmt.Errorf("%s: %w", k, plan.ErrBusy)
		}
	}
	for _, k := range keys {
		l.take(k)
	}
	return sync.OnceFunc(func() { l.unlock(keys) }), nil
}

// lock takes one key, in the order of the calls, or gives up with the context.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	unlock = sync.OnceFunc(func() { l.unlock([]string{key}) })
	l.mu.Lock()
	waiters, taken := l.held[key]
	if !taken {
		l.take(key)
		l.mu.Unlock()
		return unlock, nil
	}
	turn := make(chan struct{})
	l.held[key] = append(waiters, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return unlock, nil
	case <-ctx.Done():
		if !l.leave(key, turn) {
			unlock()
		}
		return nil, ctx.Err()
	}
}

func (l *locks) take(key string) {
	if l.held == nil {
		l.held = map[string][]chan struct{}{}
	}
	l.held[key] = nil
}

// leave reports whether the caller left the queue. It did not when its turn came at the same moment.
func (l *locks) leave(key string, turn chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.held[key], turn)
	if i < 0 {
		return false
	}
	l.held[key] = slices.Delete(l.held[key], i, i+1)
	return true
}

// unlock hands each key to the first who waits for it.
func (l *locks) unlock(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		waiters := l.held[k]
		if len(waiters) == 0 {
			delete(l.held, k)
			continue
		}
		l.held[k] = waiters[1:]
		close(waiters[0])
	}
}
