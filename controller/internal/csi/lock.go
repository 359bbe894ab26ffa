package csi

import (
	"fmt"
	"sync"
)

// locks are held by the name in LVM. Nobody waits for one: a call that finds it taken is told to come again.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

func (l *locks) tryLock(name string) (unlock func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, fmt.Errorf("volume %s: %w", name, errBusy)
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[name] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
	}, nil
}
