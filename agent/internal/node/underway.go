package node

import "sync"

// underway counts the changes of our own that are under way. They make events by the dozen, and an observation in the middle of them
// reads every disk for a state that is gone a moment later. Each change observes, or knows, its own result.
type underway struct {
	mu    sync.Mutex
	count int
	none  chan struct{} // closed when the last one ends; nil while there is none
}

// begin says that a change begins. The caller says when it ends.
func (u *underway) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count++; u.count == 1 {
		u.none = make(chan struct{})
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.count--; u.count == 0 {
			close(u.none)
			u.none = nil
		}
	}
}

// over is closed when no change is under way.
func (u *underway) over() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.none == nil {
		return closed
	}
	return u.none
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
