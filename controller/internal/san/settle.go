package san

import (
	"context"
	"time"
)

// settleLongest is the longest pause between two tries to settle what was left.
const settleLongest = 30 * time.Second

// settleLater has what a turn left without an answer settled soon, by a turn that changes nothing. Whoever asked for the change may see that it was made, and ask for nothing more; until this process has taken
// another turn every other one waits for it, as long as it waits for one that is gone.
func (s *San) settleLater(ctx context.Context, t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Settle == 0 || t.memory.settling {
		return
	}
	t.memory.settling = true
	go s.settle(context.WithoutCancel(ctx), t)
}

// settle tries until a turn of this process has begun a new epoch, in which the node that did not answer is waited for by whoever works next, or until others take the record for stale anyway.
func (s *San) settle(ctx context.Context, t *Turn) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	m := t.memory
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		m.settling = false
	}()
	for pause := s.cfg.Settle; ; pause = min(2*pause, settleLongest) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if s.settled(ctx, m) {
			return
		}
		// That it fails is told to whoever changes the group next.
		_ = s.turn(ctx, &Turn{san: s, ref: t.ref, blank: t.blank}, func(context.Context, *Turn) error { return nil })
	}
}

// settled reports whether nothing is left without an answer.
func (s *San) settled(ctx context.Context, m *memory) bool {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return true
	}
	defer func() { <-m.turn }()
	return m.unanswered == ""
}
