package san

import (
	"context"
	"time"

	"github.com/go-logr/logr"
)

// settleLongest is the longest pause between two tries to settle what was left.
const settleLongest = 30 * time.Second

// settleLater has what a turn left without an answer settled soon, by a turn that changes nothing. Whoever asked for the change may see that it was made, and ask for nothing more; until this process has taken
// another turn every other one waits for it, as long as it waits for one that is gone. The caller holds the turn.
func (s *San) settleLater(ctx context.Context, t *Turn) {
	if s.cfg.Settle == 0 || t.settles {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := t.memory
	begun := !m.settling.IsZero()
	m.settling = s.cfg.Now().Add(s.cfg.Patience)
	if !begun {
		go s.settle(context.WithoutCancel(ctx), t)
	}
}

// settle tries until a turn of this process has begun a new epoch, in which the node that did not answer is waited for by whoever works next, or until others take the record for stale anyway.
func (s *San) settle(ctx context.Context, t *Turn) {
	var last error
	for pause := s.cfg.Settle; ; pause = min(2*pause, settleLongest) {
		time.Sleep(pause)
		if s.settled(ctx, t, last) {
			return
		}
		if last = s.try(ctx, t); s.settled(ctx, t, last) {
			return
		}
	}
}

// try takes a turn that changes nothing.
func (s *San) try(ctx context.Context, t *Turn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	return s.turn(ctx, &Turn{san: s, ref: t.ref, blank: t.blank, settles: true}, func(context.Context, *Turn) error { return nil })
}

// settled reports whether there is nothing more to try, and logs why what is left then could not be settled. A turn that loses an answer afterwards begins anew: what says that somebody settles is taken back
// while no other turn goes on.
func (s *San) settled(ctx context.Context, t *Turn, last error) bool {
	m := t.memory
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.unanswered == "":
	case s.cfg.Now().Before(m.settling):
		return false
	default:
		logr.FromContextOrDiscard(ctx).Error(last, "Giving up to settle a change that has no answer", "owner", t.ref.OwnerUID, "node", m.unanswered)
	}
	m.settling = time.Time{}
	return true
}
