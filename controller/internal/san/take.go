package san

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
)

// take does what decide/writer says until changes may be sent.
func (t *Turn) take(ctx context.Context) error {
	for known := nothing; ; {
		if err := t.look(ctx, known); err != nil {
			return err
		}
		a := writer.Next(t.record, t.facts)
		if a.MayChange {
			return nil
		}
		err := t.do(ctx, a)
		if err != nil && !errors.Is(err, ErrConflict) && !t.replaced() {
			return err
		}
		known = left(a, err)
	}
}

// known is what need not be asked again before the next action.
type known int

const (
	nothing known = iota
	ofRecord
	everything
)

// left returns what is known after an action. A record that this process wrote is as it wrote it, until somebody finds it stale: then the process stands still, or may as
// well, and its changes are refused by their epoch. Once the writer is settled nothing depends on what the members are but whether they answer, which shows.
func left(a writer.Action, err error) known {
	switch {
	case err != nil:
		return nothing
	case a.Write != nil:
		return ofRecord
	case a.Read != "", a.TakeOver != "":
		return everything
	}
	return nothing
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
func (t *Turn) look(ctx context.Context, known known) error {
	if known == everything {
		return nil
	}
	cfg := t.san.cfg
	if known == nothing {
		if err := t.load(ctx); err != nil {
			return err
		}
		if taken := t.record.Taken; taken != "" && taken != t.facts.Self && !t.facts.Stale {
			// All that can be done is to wait, and for that nobody has to be asked.
			return nil
		}
	}
	t.facts.Unanswered, t.facts.Late = t.memory.unanswered, t.memory.late != "" && t.memory.late == t.version
	var err error
	if t.members, err = cfg.Fleet.Members(ctx, t.ref); err != nil {
		return err
	}
	t.facts.Members, t.facts.Up, t.facts.Fenced = nil, map[string]bool{}, map[string]bool{}
	for _, m := range t.members {
		t.facts.Members = append(t.facts.Members, m.Node)
		t.facts.Up[m.Node] = m.Usable()
		t.facts.Fenced[m.Node] = m.Fenced
	}
	t.facts.Members = spread(t.ref.OwnerUID, t.facts.Members)
	t.remember()
	t.doubt()
	return nil
}

// load reads the record.
func (t *Turn) load(ctx context.Context) error {
	cfg := t.san.cfg
	record, version, err := cfg.Leases.Load(ctx, t.ref.OwnerUID)
	if err != nil {
		return err
	}
	if t.facts.Self == "" || version != t.version {
		t.fresh()
	}
	t.record, t.version = record, version
	t.memory.keep(record, version)
	if t.memory.version != version {
		t.memory.version, t.memory.since = version, cfg.Now()
	}
	t.facts.Stale = sameRole(record.Taken, cfg.Self) || cfg.Now().Sub(t.memory.since) > cfg.Patience || t.orphaned(ctx)
	return nil
}

// orphaned reports whether the process that has the turn is gone. A turn that goes on changes the record or ends soon, so that nobody is asked about most of them.
func (t *Turn) orphaned(ctx context.Context) bool {
	cfg, now := t.san.cfg, t.san.cfg.Now()
	taken := t.record.Taken
	if cfg.Processes == nil || taken == "" || taken == cfg.Self || now.Sub(t.memory.since) < cfg.Doubt || now.Sub(t.memory.asked) < cfg.Doubt {
		return false
	}
	t.memory.asked = now
	return cfg.Processes.Gone(ctx, taken)
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
	t.facts.Older = t.noted().Older(t.record.Writer, *seen.Group)
	t.note(*seen.Group)
	return nil
}

// spread orders nodes as they are to be the writer of an owner's group: groups whose first writers are on several nodes do not wait for one node's LVM.
func spread(ownerUID string, nodes []string) []string {
	weight := func(node string) uint64 {
		sum := sha256.Sum256([]byte(ownerUID + "/" + node))
		return binary.BigEndian.Uint64(sum[:])
	}
	return slices.SortedFunc(slices.Values(nodes), func(a, b string) int { return cmp.Or(cmp.Compare(weight(a), weight(b)), cmp.Compare(a, b)) })
}

func messageOf(err error) string {
	if f, ok := errors.AsType[*decide.Fault](err); ok {
		return f.Message
	}
	return err.Error()
}
