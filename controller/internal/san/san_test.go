package san

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
)

var ref = sharedlun.Ref{OwnerUID: "uid18", UUID: "group"}

func (f *fleet) san(self string) *San {
	return New(Config{Self: self, Nodes: f, Fleet: f, Leases: f, Pause: time.Millisecond, Patience: time.Hour})
}

func wantFault(t *testing.T, err error, kind decide.FaultKind, says string) {
	t.Helper()
	f, ok := errors.AsType[*decide.Fault](err)
	if !ok || f.Kind != kind || !strings.Contains(f.Message, says) {
		t.Errorf("%v, want a fault of kind %d that says %q", err, kind, says)
	}
}

func (f *fleet) want(t *testing.T, volume, heldBy string, mapped ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.group.Volume(volume)
	if v.HeldBy != heldBy || v.Leaving || !slices.Equal(f.mapped[v.UUID], mapped) && len(mapped)+len(f.mapped[v.UUID]) > 0 {
		t.Errorf("volume %s is held by %q (leaving: %v) and mapped on %v, want %q and %v", volume, v.HeldBy, v.Leaving, f.mapped[v.UUID], heldBy, mapped)
	}
}

func TestSan_attach(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	ctx := t.Context()
	m, err := s.Attach(ctx, ref, "a", "n2")
	if err != nil || m.Device != "/dev/mapper/ua" {
		t.Fatalf("%+v, %v", m, err)
	}
	f.want(t, "a", "n2", "n2")
	if !f.record.Equal(writer.Record{Epoch: 1, Writer: "n1", Pending: []string{}, Noted: writer.Mark{Group: "group", Sequence: 3}}) {
		t.Errorf("the record is %+v", f.record)
	}
	if _, err := s.Attach(ctx, ref, "a", "n2"); err != nil {
		t.Errorf("attached again: %v", err)
	}
	_, err = s.Attach(ctx, ref, "a", "n3")
	wantFault(t, err, decide.FaultPrecondition, "attached to node n2")
	_, err = s.Attach(ctx, ref, "c", "n3")
	wantFault(t, err, decide.FaultNotFound, "no volume c")
	if err := s.Detach(ctx, ref, "a", "n3"); err != nil {
		t.Errorf("detached from where it is not: %v", err)
	}
	f.want(t, "a", "n2", "n2")
	if err := s.Detach(ctx, ref, "a", ""); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
	if err := s.Detach(ctx, ref, "c", "n1"); err != nil {
		t.Errorf("detached a volume that is gone: %v", err)
	}
	if f.record.Epoch != 1 {
		t.Errorf("the writer changed without need: %+v", f.record)
	}
}

func TestSan_lostAnswer(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "b", "n1"); err != nil {
		t.Fatal(err)
	}
	f.lose = 1
	_, err := s.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, err, decide.FaultUnavailable, "connection was closed")
	if f.record.Taken != "csi/1" {
		t.Errorf("the turn was given back with a change unanswered: %+v", f.record)
	}
	f.calls = nil
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "n2", "n2")
	if f.record.Epoch != 2 || f.group.Epoch != 2 || !slices.Contains(f.calls, "promise n1") {
		t.Errorf("record %+v, group's epoch %d, calls %v", f.record, f.group.Epoch, f.calls)
	}
}

func TestSan_silentWriter(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	// Idle: nobody has to wait for it.
	f.silent["n1"] = true
	if _, err := s.Attach(t.Context(), ref, "b", "n2"); err != nil || f.record.Writer != "n2" {
		t.Fatalf("%v, %+v", err, f.record)
	}
	// In the middle of a change: it has to yield or be fenced.
	f.silent["n1"] = false
	f.lose = 1
	if err := s.Detach(t.Context(), ref, "b", "n2"); err == nil {
		t.Fatal("the answer was not lost")
	}
	f.silent["n2"] = true
	err := s.Detach(t.Context(), ref, "b", "n2")
	wantFault(t, err, decide.FaultUnavailable, "may still run on n2 (no connection)")
	f.fence(1)
	if err := s.Detach(t.Context(), ref, "b", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "b", "", "n2")
	if _, err := s.Attach(t.Context(), ref, "b", "n1"); err != nil {
		t.Fatal(err)
	}
}

func TestSan_silentHolder(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.silent["n2"] = true
	wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultUnavailable, "no connection")
	if v := f.group.Volume("a"); v.HeldBy != "n2" || !v.Leaving {
		t.Errorf("%+v", v)
	}
	_, err := s.Attach(t.Context(), ref, "a", "n1")
	wantFault(t, err, decide.FaultUnavailable, "no connection")
	// A late order to map it changes nothing.
	f.silent["n2"] = false
	_, err = f.Map(t.Context(), "n2", ref, f.members[1].Credential, sharedlun.Volume{Name: "a", UUID: "ua"}, 0)
	wantFault(t, err, decide.FaultPrecondition, "not this node's")
	f.inUse["ua"] = true
	wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultPrecondition, "mounted")
	f.inUse["ua"] = false
	// Attaching elsewhere ends what was begun.
	if _, err := s.Attach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "n1", "n1")
}

func TestSan_otherProcess(t *testing.T) {
	f := newFleet("n1", "n2")
	f.record, f.version, f.group.Epoch = writer.Record{Epoch: 4, Writer: "n1", Taken: "engine/1"}, 9, 4
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := f.san("csi/1").Attach(ctx, ref, "a", "n1")
	wantFault(t, err, decide.FaultUnavailable, "engine/1 is changing the volume group")
	// Of its own role only one works: the one of before is gone.
	if _, err := f.san("engine/2").Attach(t.Context(), ref, "a", "n1"); err != nil || f.record.Epoch != 5 {
		t.Errorf("%v, %+v", err, f.record)
	}
	// One of another role counts as gone when its record does not change for long.
	f.record, f.version = writer.Record{Epoch: 5, Writer: "n1", Taken: "engine/2"}, f.version+1
	s := f.san("csi/2")
	s.cfg.Patience = 20 * time.Millisecond
	if err := s.Detach(t.Context(), ref, "a", "n1"); err != nil || f.record.Epoch != 6 {
		t.Errorf("%v, %+v", err, f.record)
	}
}

// ended are processes that are known to be gone; asked counts the questions.
type ended struct {
	names []string
	asked *int
}

func (e ended) Gone(_ context.Context, name string) bool {
	*e.asked++
	return slices.Contains(e.names, name)
}

// TestSan_goneProcess: the turn of a process that is gone is nobody's. One that works, or of which nothing is known, keeps it.
func TestSan_goneProcess(t *testing.T) {
	for name, tt := range map[string]struct {
		gone  []string
		doubt time.Duration
		free  bool
	}{
		"gone":                {[]string{"csi/a/1"}, time.Nanosecond, true},
		"another one is gone": {[]string{"csi/a/2"}, time.Nanosecond, false},
		"it may be at work":   {[]string{"csi/a/1"}, time.Hour, false},
	} {
		f, asked := newFleet("n1", "n2"), 0
		f.record, f.version, f.group.Epoch = writer.Record{Epoch: 4, Writer: "n1", Taken: "csi/a/1"}, 9, 4
		s := f.san("engine/b/1")
		s.cfg.Processes, s.cfg.Doubt = ended{tt.gone, &asked}, tt.doubt
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := s.Attach(ctx, ref, "a", "n1")
		cancel()
		if free := err == nil && f.record.Epoch == 5; free != tt.free || tt.doubt > time.Minute && asked > 0 {
			t.Errorf("%s: %v, %+v, asked %d times", name, err, f.record, asked)
		}
	}
}

func TestSan_restoredBackup(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	f.group.Epoch = 7
	f.record, f.version = writer.Record{Epoch: 5, Writer: "n2"}, 3
	if _, err := f.san("csi/1").Attach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	if f.record.Epoch != 8 || f.group.Epoch != 8 {
		t.Errorf("record %+v, group %d", f.record, f.group.Epoch)
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if f.seen[n] != 8 {
			t.Errorf("%s did not promise: %v", n, f.seen)
		}
	}
}

// TestSan_fencedNode: a node that is fenced, and was booted since, gets no volume before it has its next key; and what it has is unmapped there, if
// it answers.
func TestSan_fencedNode(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.fence(1)
	_, err := s.Attach(t.Context(), ref, "b", "n2")
	wantFault(t, err, decide.FaultUnavailable, "cannot write to the LUN now")
	_, err = s.Attach(t.Context(), ref, "b", "n9")
	wantFault(t, err, decide.FaultUnavailable, "no initiator")
	f.inUse["ua"], f.members[1].ReportedBootID = true, "n2-boot-2"
	wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultPrecondition, "mounted")
	f.inUse["ua"] = false
	if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
	f.want(t, "b", "")
	if !f.cut["n2"] {
		t.Error("I/O of a fenced node was not ended")
	}
}

// TestSan_fenceInDoubt: that its Member says that a node is fenced lets nobody take its volume, and no other node write, while the keys on the LUN say something else.
func TestSan_fenceInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		doubt, heal func(f *fleet)
		says        string
	}{
		"a Member of a backup: the node has a newer key": {
			func(f *fleet) { f.keys[99] = true }, func(f *fleet) { delete(f.keys, 99) }, "key 0000000000000063 on the LUN is no member's",
		},
		"the key was registered after the fence": {
			func(f *fleet) { f.keys[2] = true }, func(f *fleet) { delete(f.keys, 2) }, "of n2, which is fenced",
		},
		"a key may be registered later": {
			func(f *fleet) { f.members[1].Registering = true }, func(f *fleet) { f.members[1].Registering = false }, "did not answer",
		},
		"the target loses its keys":   {(*fleet).loseOnceLeaving, func(f *fleet) { f.during, f.reserved = nil, true }, "nobody holds the reservation"},
		"the target lost them before": {func(f *fleet) { f.reserved = false }, func(f *fleet) { f.reserved = true }, "no key"},
		"the boot is not known":       {func(f *fleet) { f.members[1].BootID = "" }, func(f *fleet) { f.members[1].BootID = "n2-boot-1" }, "which boot"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2", "n3")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.fence(1)
			f.silent["n2"] = true
			c.doubt(f)
			err := s.Detach(t.Context(), ref, "a", "n2")
			if v := f.group.Volume("a"); v.HeldBy != "n2" || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%+v, %v, want an error that says %q", v, err, c.says)
			}
			c.heal(f)
			if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.want(t, "a", "", "n2")
			if got := f.group.Volume("a").Readers; len(got) != 1 || got[0] != (sharedlun.Boot{Node: "n2", ID: "n2-boot-1"}) {
				t.Errorf("its readers are %v", got)
			}
		})
	}
}

// TestSan_writerInDoubt: no other node writes while the keys on the LUN do not show the fence of one that may still have a change.
func TestSan_writerInDoubt(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.lose = 1
	if err := s.Detach(t.Context(), ref, "a", "n2"); err == nil {
		t.Fatal("the answer was not lost")
	}
	f.silent["n1"] = true
	f.fence(0)
	f.keys[99] = true
	wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultUnavailable, "its fence does not count: key 0000000000000063")
	delete(f.keys, 99)
	if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
}

// TestSan_remove: what was taken from a node by a fence is removed only once that node reports another boot, and says that it has no device of it.
func TestSan_remove(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	remove := func() error { return s.Remove(t.Context(), ref, "a", "ua") }
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	wantFault(t, remove(), decide.FaultConflict, "not to be removed")
	f.silent["n2"] = true
	f.fence(1)
	if err := s.Detach(t.Context(), ref, "a", ""); err != nil {
		t.Fatal(err)
	}
	wantFault(t, remove(), decide.FaultConflict, "may still read")
	f.silent["n2"] = false
	wantFault(t, remove(), decide.FaultConflict, "boot it")
	// Its Member was from a backup: the node has that boot for long.
	f.members[1].ReportedBootID = "n2-boot-0"
	f.inUse["ua"] = true
	wantFault(t, remove(), decide.FaultPrecondition, "mounted")
	f.inUse["ua"] = false
	if err := remove(); err != nil || f.group.Volume("a") != nil || len(f.mapped["ua"]) > 0 {
		t.Errorf("%v, %+v, mapped on %v", err, f.group, f.mapped)
	}
	if err := remove(); err != nil {
		t.Errorf("removed again: %v", err)
	}
}

// TestSan_answered: no code of an error says that a change has ended; only the agent does.
func TestSan_answered(t *testing.T) {
	for kind := decide.FaultInternal; kind <= decide.FaultRange; kind++ {
		f := newFleet("n1")
		fault := f.fault(kind, "n1", "change", "why")
		if answered(fault) {
			t.Errorf("a fault of kind %d counts as the agent's word", kind)
		}
		if !answered(fmt.Errorf("call: %w", &Refusal{Err: fault})) {
			t.Errorf("a refusal of kind %d does not count", kind)
		}
	}
}

// TestSan_sideBySide: two processes move volumes at the same time, and some answers are lost.
func TestSan_sideBySide(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	var group sync.WaitGroup
	var moved atomic.Int64
	for p, role := range []string{"engine/1", "csi/1"} {
		s := f.san(role)
		for w := range 3 {
			group.Go(func() {
				for i := range 20 {
					volume, node := []string{"a", "b"}[(i+w)%2], fmt.Sprintf("n%d", (i+w+p)%3+1)
					if i == 10 {
						f.mu.Lock()
						f.lose++
						f.mu.Unlock()
					}
					if _, err := s.Attach(t.Context(), ref, volume, node); err == nil {
						moved.Add(1)
						_ = s.Detach(t.Context(), ref, volume, node)
					}
				}
			})
		}
	}
	group.Wait()
	if moved.Load() < 20 {
		t.Errorf("only %d volumes were moved", moved.Load())
	}
	for uuid, nodes := range f.mapped {
		if len(nodes) > 1 {
			t.Errorf("%s is mapped on %v", uuid, nodes)
		}
	}
	for _, volume := range []string{"a", "b"} {
		if err := f.san("csi/2").Detach(t.Context(), ref, volume, ""); err != nil {
			t.Error(err)
		}
		f.want(t, volume, "")
	}
}
