package san

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
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
}

// Turn takes the turn for a group and calls do. What do was told by nodes counts until it returns, and no longer.
func (s *San) Turn(ctx context.Context, ref sharedlun.Ref, do func(ctx context.Context, t *Turn) error) error {
	return s.turn(ctx, &Turn{san: s, ref: ref}, do)
}

func (s *San) turn(ctx context.Context, t *Turn, do func(ctx context.Context, t *Turn) error) error {
	ref := t.ref
	m := s.remembered(ref.OwnerUID)
	s.count(m, +1)
	select {
	case m.turn <- struct{}{}:
		s.count(m, -1)
	case <-ctx.Done():
		s.count(m, -1)
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
	return errors.Join(err, t.giveBack(ctx))
}

// abandon gives back what was kept for a turn that is not taken, once the one before it has ended. What fails is found stale by the next process.
func (t *Turn) abandon(ctx context.Context) {
	t.memory.turn <- struct{}{}
	defer func() { <-t.memory.turn }()
	_ = t.giveBack(ctx)
}

func (s *San) count(m *memory, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waiting += n
}

// take does what decide/writer says until changes may be sent.
func (t *Turn) take(ctx context.Context) error {
	for {
		if err := t.look(ctx); err != nil {
			return err
		}
		a := writer.Next(t.record, t.facts)
		if a.MayChange {
			return nil
		}
		if err := t.do(ctx, a); err != nil && !errors.Is(err, ErrConflict) && !t.replaced() {
			return err
		}
	}
}

// do performs one action.
func (t *Turn) do(ctx context.Context, a writer.Action) error {
	switch {
	case a.Write != nil:
		return t.write(ctx, *a.Write)
	case a.Promise != "":
		promised, err := t.san.cfg.Nodes.Promise(ctx, a.Promise, t.promised(), t.record.Epoch)
		if err == nil {
			err = t.believe(ctx, a.Promise)
		}
		if err != nil {
			t.facts.Silent[a.Promise] = messageOf(err)
			return nil
		}
		t.facts.Promised[a.Promise] = promised
		return nil
	case a.Keys != "":
		t.readKeys(ctx)
		return nil
	case a.Read != "":
		return t.read(ctx)
	case a.TakeOver != "":
		return t.Change(ctx, sharedlun.Change{TakeOver: true})
	case t.record.Taken != "" && t.record.Taken != t.facts.Self:
		// The other process works: that ends soon.
		return t.pause(ctx, a.Wait)
	}
	return unavailable("%s", a.Wait)
}

// look learns what the record and the members are now. Facts that nodes told count only while the record stays this process's own.
func (t *Turn) look(ctx context.Context) error {
	cfg := t.san.cfg
	record, version, err := cfg.Leases.Load(ctx, t.ref.OwnerUID)
	if err != nil {
		return err
	}
	if t.facts.Self == "" || version != t.version {
		t.fresh()
	}
	t.record, t.version = record, version
	if t.memory.version != version {
		t.memory.version, t.memory.since = version, cfg.Now()
	}
	t.facts.Stale = sameRole(record.Taken, cfg.Self) || cfg.Now().Sub(t.memory.since) > cfg.Patience
	t.facts.Unanswered = t.memory.unanswered
	if t.members, err = cfg.Fleet.Members(ctx, t.ref); err != nil {
		return err
	}
	t.facts.Members, t.facts.Up, t.facts.Fenced = nil, map[string]bool{}, map[string]bool{}
	for _, m := range t.members {
		t.facts.Members = append(t.facts.Members, m.Node)
		t.facts.Up[m.Node] = m.usable()
		t.facts.Fenced[m.Node] = m.Fenced
	}
	slices.Sort(t.facts.Members)
	t.remember()
	t.doubt()
	return nil
}

// fresh drops what counts only while the record is this process's own.
func (t *Turn) fresh() {
	t.keys = nil
	t.facts = writer.Facts{Self: t.san.cfg.Self, Promised: map[string]uint64{}, Silent: map[string]string{}}
}

// sameRole reports whether a record was taken by an earlier process of this one's role. Of each role one process works at a time, so that one is gone. Were it
// not, its changes would be of an old epoch.
func sameRole(taken, self string) bool {
	role, _, _ := strings.Cut(self, "/")
	return taken != self && strings.HasPrefix(taken, role+"/")
}

// write replaces the record. What this process left unanswered is taken care of once the record has a new epoch: its writer has to yield.
func (t *Turn) write(ctx context.Context, r writer.Record) error {
	version, err := t.san.cfg.Leases.Store(ctx, t.ref.OwnerUID, r, t.version)
	if err != nil {
		return err
	}
	if r.Epoch != t.record.Epoch {
		t.memory.unanswered = false
	}
	if r.Epoch != t.record.Epoch || r.Taken != t.record.Taken {
		t.fresh()
	}
	t.record, t.version = r, version
	t.memory.version, t.memory.since = version, t.san.cfg.Now()
	return nil
}

func (t *Turn) pause(ctx context.Context, why string) error {
	select {
	case <-time.After(t.san.cfg.Pause):
		return nil
	case <-ctx.Done():
		return unavailable("%s", why)
	}
}

// read asks the writer for the group.
func (t *Turn) read(ctx context.Context) error {
	seen, err := t.san.cfg.Nodes.Contents(ctx, t.record.Writer, t.ref)
	switch {
	case err != nil:
		t.blame(ctx)
		return err
	case t.blank && (seen.Group == nil || t.ref.UUID == ""):
		t.readBlank(seen)
		return nil
	case seen.Group == nil:
		return &decide.Fault{
			Kind: decide.FaultPrecondition, Node: t.record.Writer, Call: "read the volume group of a shared LUN",
			Message: "the LUN has no volume group of this Iscsi: volume group " + t.ref.UUID + " is on record",
		}
	}
	t.Group, t.facts.Read, t.facts.GroupEpoch, t.facts.WriterPromised = *seen.Group, true, seen.Group.Epoch, seen.Promised
	return nil
}

// giveBack ends the turn, if every change was answered and nobody else of this process waits for it.
func (t *Turn) giveBack(ctx context.Context) error {
	t.san.mu.Lock()
	waiting := t.memory.waiting
	t.san.mu.Unlock()
	if t.memory.unanswered || waiting > 0 {
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

func messageOf(err error) string {
	if f, ok := errors.AsType[*decide.Fault](err); ok {
		return f.Message
	}
	return err.Error()
}
