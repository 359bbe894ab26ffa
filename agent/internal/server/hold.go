package server

import "sync"

// changes counts the changes of our own that are under way. They make events by the dozen, and who observes in the middle of them
// reads every disk again for a state that is gone a moment later. Each of them observes, or knows, its own result.
type changes struct {
	mu    sync.Mutex
	count int
	none  chan struct{} // closed when the last one ends; nil while there is none
}

// begin says that a change begins; the caller says when it ends.
func (c *changes) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count++; c.count == 1 {
		c.none = make(chan struct{})
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.count--; c.count == 0 {
			close(c.none)
			c.none = nil
		}
	}
}

// over is closed when no change is under way.
func (c *changes) over() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none == nil {
		return closed
	}
	return c.none
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
