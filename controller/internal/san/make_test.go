package san

import (
	"context"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// blank is a LUN on which there may be no group.
type blank struct {
	*fleet
	made bool
}

func (b *blank) Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error) {
	c, err := b.fleet.Contents(ctx, node, ref)
	if !b.made {
		c.Group = nil
	}
	return c, err
}

func (b *blank) Create(_ context.Context, node string, _ sharedlun.Ref, m sharedlun.Mandate, name, _ string) (sharedlun.Group, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(node, "create"); err != nil {
		return sharedlun.Group{}, err
	}
	if m.Epoch < b.seen[node] || m.Key == 0 {
		return sharedlun.Group{}, b.refusal(decide.FaultPrecondition, node, "create", "epoch is old, or no key")
	}
	if !b.made {
		b.group, b.made = sharedlun.Group{UUID: "group", Name: name, Epoch: m.Epoch, Sequence: 1}, true
	}
	if b.lose > 0 {
		b.lose--
		return sharedlun.Group{}, b.fault(decide.FaultUnavailable, node, "create", "the connection was closed")
	}
	return b.copy(), nil
}

func (b *blank) Remove(_ context.Context, node string, _ sharedlun.Ref, m sharedlun.Mandate) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(node, "remove"); err != nil {
		return err
	}
	if b.made && m.Epoch != b.group.Epoch {
		return b.refusal(decide.FaultPrecondition, node, "remove", "epoch is another")
	}
	b.made = false
	return nil
}

func (b *blank) san(self string) *San {
	s := b.fleet.san(self)
	s.cfg.Nodes, s.cfg.Maker = b, b
	return s
}

func TestSan_make(t *testing.T) {
	b := &blank{fleet: newFleet("n1", "n2")}
	g, err := b.san("engine/1").MakeGroup(t.Context(), sharedlun.Ref{OwnerUID: "uid18"}, "vg", "")
	if err != nil || g.UUID != "group" || g.Epoch != 1 || b.record.Taken != "" {
		t.Fatalf("%+v, %v, %+v", g, err, b.record)
	}
	if again, err := b.san("engine/2").MakeGroup(t.Context(), sharedlun.Ref{OwnerUID: "uid18"}, "vg", ""); err != nil || again.UUID != "group" {
		t.Errorf("%+v, %v", again, err)
	}
	for range 2 {
		if err := b.san("engine/2").RemoveGroup(t.Context(), ref); err != nil || b.made {
			t.Errorf("%v, there: %t", err, b.made)
		}
	}
}

// TestSan_makeIsUnanswered: the node that may still make the group has to say that it does not before another one is asked.
func TestSan_makeIsUnanswered(t *testing.T) {
	b := &blank{fleet: newFleet("n1", "n2")}
	b.lose = 1
	_, err := b.san("engine/1").MakeGroup(t.Context(), sharedlun.Ref{OwnerUID: "uid18"}, "vg", "")
	wantFault(t, err, decide.FaultUnavailable, "connection was closed")
	b.silent["n1"] = true
	_, err = b.san("engine/2").MakeGroup(t.Context(), sharedlun.Ref{OwnerUID: "uid18"}, "vg", "")
	wantFault(t, err, decide.FaultUnavailable, "may still run on n1")
	b.silent["n1"] = false
	if g, err := b.san("engine/2").MakeGroup(t.Context(), sharedlun.Ref{OwnerUID: "uid18"}, "vg", ""); err != nil || g.UUID != "group" {
		t.Errorf("%+v, %v", g, err)
	}
	if err := b.san("engine/2").RemoveGroup(t.Context(), ref); err != nil {
		t.Error(err)
	}
}

func TestSan_makeNeedsAMaker(t *testing.T) {
	b := &blank{fleet: newFleet("n1")}
	if err := b.fleet.san("csi/1").RemoveGroup(t.Context(), ref); err == nil || len(b.calls) > 0 {
		t.Errorf("%v, %v", err, b.calls)
	}
}
