package san

import (
	"context"
	"errors"
	"time"

	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Turn is the time in which this process, and no other one, changes a group.
type Turn struct {
	san    *San
	ref    sharedlun.Ref
	memory *memory
	// record and version as this process knows them, and the facts that count for as long as the record is its own.
	record  writer.Record
	version string
	facts   writer.Facts
	members []Member
	// keys are those on the LUN, if they were read since the record is this process's own.
	keys *keysOn
	// tries counts the writers that failed in this turn.
	tries int
	// Group as the writer reported it last.
	Group sharedlun.Group
	// blank is true for a turn in which there may be no group: it is made or removed.
	blank bool
	// settles is true for a turn that is taken only to settle what an earlier one left without an answer.
	settles bool
}

// Turn takes the turn for a group and calls do. What do was told by nodes counts until it returns, and no longer.
func (s *San) Turn(ctx context.Context, ref sharedlun.Ref, do func(ctx context.Context, t *Turn) error) error {
	return s.turn(ctx, &Turn{san: s, ref: ref}, do)
}

func (s *San) turn(ctx context.Context, t *Turn, do func(ctx context.Context, t *Turn) error) error {
	ref := t.ref
	m := s.join(ref.OwnerUID)
	select {
	case m.turn <- struct{}{}:
		s.part(m)
	case <-ctx.Done():
		s.part(m)
		// Whoever has the turn may have kept it for this one, and its record.
		t.memory = m
		go t.abandon(context.WithoutCancel(ctx))
		return unavailable("waiting for an earlier change: %v", context.Cause(ctx))
	}
	defer func() { <-m.turn }()
	t.memory = m
	err := t.take(ctx)
	if err == nil {
		err = do(ctx, t)
	}
	err = errors.Join(err, t.giveBack(ctx))
	if m.unanswered != "" {
		s.settleLater(ctx, t)
	}
	return err
}

// abandon gives back what was kept for a turn that is not taken, once the one before it has ended. What fails is found stale by the next process.
func (t *Turn) abandon(ctx context.Context) {
	t.memory.turn <- struct{}{}
	defer func() { <-t.memory.turn }()
	_ = t.giveBack(ctx)
}

// part takes off one that wanted a turn.
func (s *San) part(m *memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waiting--
}

// noted is how far the group of this turn had come, by the record and by what this process saw of it since.
func (t *Turn) noted() writer.Mark { return t.record.Noted.Or(t.memory.noted, t.ref.UUID) }

// note remembers how far the group has come. The record learns it with its next write: until then it may be known to this process alone.
func (t *Turn) note(g sharedlun.Group) {
	if t.ref.UUID != "" && g.UUID == t.ref.UUID {
		t.memory.noted = writer.MarkOf(g).Or(t.memory.noted, g.UUID)
	}
}

// write replaces the record. Whoever works next finds out by what is noted in it whether the LUN still is what it was. What this process left unanswered is taken care of once the record has a new epoch: its writer has to yield.
func (t *Turn) write(ctx context.Context, r writer.Record) error {
	r.Noted = r.Noted.Or(t.memory.noted, t.ref.UUID)
	version, err := t.san.cfg.Leases.Store(ctx, t.ref.OwnerUID, r, t.version)
	if err != nil {
		if !errors.Is(err, ErrConflict) {
			t.memory.late = t.version
		}
		return err
	}
	if r.Epoch != t.record.Epoch {
		t.memory.unanswered = ""
	}
	if r.Epoch != t.record.Epoch || r.Taken != t.record.Taken {
		t.fresh()
	}
	t.record, t.version = r, version
	t.memory.version, t.memory.since = version, t.san.cfg.Now()
	t.memory.keep(r, version)
	return nil
}

// giveBack ends the turn, if every change was answered and nobody else of this process waits for it. If that has no answer, it may arrive while a later turn changes the
// group: that one writes the record anew first.
func (t *Turn) giveBack(ctx context.Context) error {
	t.san.mu.Lock()
	waiting := t.memory.waiting
	t.san.mu.Unlock()
	if t.memory.unanswered != "" || waiting > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var err error
	if t.facts.Self == "" {
		// This turn never looked, and an earlier one may have kept the record for it.
		if t.record, t.version, err = t.san.cfg.Leases.Load(ctx, t.ref.OwnerUID); err != nil {
			return err
		}
	}
	if t.record.Taken != t.san.cfg.Self {
		return nil
	}
	err = t.write(ctx, t.record.Idle())
	if errors.Is(err, ErrConflict) {
		// Somebody found it stale. The next turn begins with what they wrote.
		return nil
	}
	return err
}
