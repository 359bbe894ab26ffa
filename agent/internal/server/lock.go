package server

import (
	"fmt"
	"slices"
	"sync"
)

// locks are held per group and per device. Nobody waits for one: a caller that finds a key taken is told to come again.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

// tryLock takes all keys, or none. The first key that is taken is named in the error.
func (l *locks) tryLock(keys ...string) (unlock func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]bool{}
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, k := range keys {
		if l.held[k] {
			return nil, fmt.Errorf("%s: %w", k, errBusy)
		}
	}
	for _, k := range keys {
		l.held[k] = true
	}
	return func() { l.unlock(keys) }, nil
}

func (l *locks) unlock(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		delete(l.held, k)
	}
}
