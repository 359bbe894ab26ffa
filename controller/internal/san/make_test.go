package san

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
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
	// The record tells of a group that was lost, and this one begins anew.
	b.record, b.version = writer.Record{Epoch: 3, Writer: "n1", Noted: writer.Mark{Group: "lost", Sequence: 9}}, 1
	g, err := b.san("engine/1").MakeGroup(t.Context(), sharedlun.Ref{OwnerUID: "uid18"}, "vg", "")
	if err != nil || g.UUID != "group" || g.Epoch != 3 || b.record.Taken != "" || b.record.Noted != writer.MarkOf(g) {
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

// TestSan_settles: a group was made, and its agent died before it said so. Who made it sees the group, and asks for nothing more: the other process need not wait until the first one counts as gone.
func TestSan_settles(t *testing.T) {
	for name, c := range map[string]struct {
		settle time.Duration
		// silent is how long the node does not answer, free how long it may take after that until the turn is given back; it is not for zero.
		silent, free time.Duration
	}{
		"by itself": {settle: time.Second, free: 2 * time.Second}, "once the node answers": {settle: time.Second, silent: time.Minute, free: 2 * time.Minute}, "not by itself": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &blank{fleet: newFleet("n1")}
				b.lose, b.group = 1, sharedlun.Group{}
				engine := New(Config{Self: "engine/1", Nodes: b, Maker: b, Fleet: b, Leases: b, Patience: time.Hour, Settle: c.settle})
				if _, err := engine.MakeGroup(t.Context(), ref, "a", ""); err == nil {
					t.Fatal("its answer was not lost")
				}
				taken := func(silent bool) bool {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.silent["n1"] = silent
					return b.record.Taken != ""
				}
				taken(c.silent > 0)
				time.Sleep(c.silent)
				synctest.Wait()
				if !taken(false) {
					t.Error("nobody answered, and the turn is given back")
				}
				if c.free > 0 {
					time.Sleep(c.free)
				} else {
					time.Sleep(time.Minute)
				}
				synctest.Wait()
				if is := taken(false); is != (c.free == 0) {
					t.Errorf("in the end: %+v", b.record)
				}
				if c.free == 0 {
					return
				}
				driver := New(Config{Self: "csi/1", Nodes: b, Fleet: b, Leases: b, Patience: time.Hour})
				if err := driver.Turn(t.Context(), ref, func(context.Context, *Turn) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSan_settlesWhatIsLeftLater: the time in which a turn is settled begins anew when a later one has no answer either, and the log says why it was not settled in time.
func TestSan_settlesWhatIsLeftLater(t *testing.T) {
	for name, c := range map[string]struct {
		// answers is after which time the node answers, log what is logged until then.
		answers time.Duration
		log     string
	}{
		"the node answers in time":  {answers: 70 * time.Second},
		"the node answers too late": {answers: 10 * time.Minute, log: "no node that may write to the LUN answers"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &blank{fleet: newFleet("n1")}
				b.lose, b.group = 1, sharedlun.Group{}
				var log strings.Builder
				ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}))
				silent := func(is bool) {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.silent["n1"] = is
				}
				engine := New(Config{Self: "engine/1", Nodes: b, Maker: b, Fleet: b, Leases: b, Patience: time.Minute, Settle: time.Second})
				for _, after := range []time.Duration{0, 50 * time.Second} {
					time.Sleep(after)
					if _, err := engine.MakeGroup(ctx, ref, "a", ""); err == nil {
						t.Fatal("it was answered")
					}
					silent(true)
				}
				time.Sleep(c.answers - 50*time.Second)
				synctest.Wait()
				if lines := strings.Count(log.String(), "\n"); (lines > 0) != (c.log != "") || lines > 1 || !strings.Contains(log.String(), c.log) {
					t.Errorf("logged was %q", log.String())
				}
				silent(false)
				time.Sleep(45 * time.Second)
				synctest.Wait()
				b.mu.Lock()
				defer b.mu.Unlock()
				if settled := b.record.Taken == ""; settled != (c.log == "") {
					t.Errorf("in the end: %+v", b.record)
				}
			})
		})
	}
}
