package csirpc

import (
	"fmt"
	"sync"
)

// Locks are held per volume, by its handle or name. Nobody waits for one: a call that finds it taken is told to come again. The zero
// value is ready for use.
type Locks struct {
	mu   sync.Mutex
	held map[string]bool
}

// TryLock takes the lock of a volume, or returns ErrBusy. The caller calls unlock once.
func (l *Locks) TryLock(volume string) (unlock func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[volume] {
		return nil, fmt.Errorf("volume %s: %w", volume, ErrBusy)
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[volume] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, volume)
	}, nil
}
