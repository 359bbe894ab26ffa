package node

import (
	"context"
	"sync"

	"quarry.storage/quarry/agent/internal/plan"
)

// memory is the newest snapshot with our own changes folded in, so that work on volumes need not wait for an observation of the whole
// node each time. It is lost with the process, and the next observation makes it anew.
type memory struct {
	mu       sync.Mutex
	snapshot *plan.Snapshot
	folds    []fold
	number   uint64
}

// fold is a change of our own that an observation which began before it may not have seen. Folding it in twice does no harm.
type fold struct {
	number uint64
	apply  func(plan.Snapshot) plan.Snapshot
}

// begin is called when an observation begins. Only one is under way at a time.
func (m *memory) begin() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.number
}

// forget makes the next caller observe.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshot = nil
}

// current returns the newest snapshot, and observes only when there is none.
func (h *hub) current(ctx context.Context) (plan.Snapshot, error) {
	h.memory.mu.Lock()
	s := h.memory.snapshot
	h.memory.mu.Unlock()
	if s != nil {
		return *s, nil
	}
	return h.observe(ctx)
}

// fold takes a change of our own into the newest snapshot and shows it to the followers.
func (h *hub) fold(apply func(plan.Snapshot) plan.Snapshot) {
	m := &h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number++
	m.folds = append(m.folds, fold{number: m.number, apply: apply})
	if m.snapshot == nil {
		return
	}
	s := apply(*m.snapshot)
	m.snapshot = &s
	h.show(View{Snapshot: s})
}

// land takes an observation that began at the given number, folds in what was changed since, and shows it.
func (h *hub) land(began uint64, s plan.Snapshot) plan.Snapshot {
	m := &h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	var later []fold
	for _, f := range m.folds {
		if f.number > began {
			later = append(later, f)
			s = f.apply(s)
		}
	}
	m.folds = later
	m.snapshot = &s
	h.show(View{Snapshot: s})
	return s
}
