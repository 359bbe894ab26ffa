package cluster

import (
	"context"
	"time"
)

// wait is a call that lets the World go on.
type wait struct {
	// client ends when nobody waits for the call any more.
	client context.Context
	// changed is closed when the call has to look again.
	changed chan struct{}
	// until is when its time is up. Zero means never.
	until time.Time
}

// over reports whether the call has a reason to go on.
func (one *wait) over(w *World) bool {
	return one.changed != w.changed || (!one.until.IsZero() && !w.now().Before(one.until))
}

// wake is why a wait is over.
type wake int

const (
	changed wake = iota
	timeUp
	ended
)

// wait gives the World free until it changes, a timer fires, or it ends. The timer fires at the time until; without a timer, both are zero.
func (w *World) wait(client context.Context, timer <-chan time.Time, until time.Time) wake {
	one := &wait{client: client, changed: w.changed, until: until}
	w.waits[one] = true
	defer delete(w.waits, one)
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-one.changed:
		return changed
	case <-timer:
		return timeUp
	case <-w.closed:
		return ended
	}
}
