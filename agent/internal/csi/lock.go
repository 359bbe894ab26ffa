package csi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/volumeid"
)

// locks are held per volume. Nobody waits for one: a call that finds it taken is told to come again.
type locks struct {
	mu   sync.Mutex
	held map[volumeid.ID]bool
}

func (l *locks) tryLock(id volumeid.ID) (unlock func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[id] {
		return nil, fmt.Errorf("volume %s: %w", id, plan.ErrBusy)
	}
	if l.held == nil {
		l.held = map[volumeid.ID]bool{}
	}
	l.held[id] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, id)
	}, nil
}

// begin locks a volume and gives the context for work on it, which does not end with the caller's.
func (d *Driver) begin(ctx context.Context, id volumeid.ID) (context.Context, func(), error) {
	unlock, err := d.locks.tryLock(id)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	return ctx, func() {
		cancel()
		unlock()
	}, nil
}

// since is the time that passed.
func since(start time.Time) float64 { return time.Since(start).Seconds() }
