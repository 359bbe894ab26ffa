package san

import (
	"context"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
)

// TestSan_callerGoes: a caller that goes while a change is under way costs no epoch: the change has its answer. After that nothing is sent for that caller.
func TestSan_callerGoes(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "b", "n2"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := 0
	f.during = func(call, _ string) {
		if call == "change" {
			changes++
			cancel()
		}
	}
	err := s.Detach(ctx, ref, "b", "n2")
	wantFault(t, err, decide.FaultUnavailable, "caller's time was over")
	if f.record.Taken != "" || f.record.Epoch != 1 {
		t.Errorf("the record is %+v", f.record)
	}
	if changes != 1 || !f.group.Volume("b").Leaving {
		t.Errorf("%d changes were sent, want the one that was begun: %+v", changes, f.group.Volume("b"))
	}
	f.during = nil
	if err := s.Detach(t.Context(), ref, "b", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "b", "")
	if f.record.Epoch != 1 {
		t.Errorf("it cost an epoch: %+v", f.record)
	}
}

// TestSan_lateRecord: the write that gives a turn back has no answer, and arrives in the middle of a change of the next turn, of which it knows nothing. The other process
// must not take the writer for idle: it would let another node write beside it.
func TestSan_lateRecord(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.during = func(string, string) { f.delay = 1 }
	if err := s.Detach(t.Context(), ref, "a", "n2"); err == nil || len(f.arrive) != 1 {
		t.Fatalf("%v: the write of the record had an answer", err)
	}
	f.delay, f.lose = 0, 1
	f.during = func(call, _ string) {
		if call == "change" {
			for _, arrive := range f.arrive {
				arrive()
			}
			f.arrive = nil
		}
	}
	_, err := s.Attach(t.Context(), ref, "b", "n3")
	wantFault(t, err, decide.FaultUnavailable, "connection was closed")
	if f.record.Taken != "csi/1" || len(f.arrive) > 0 {
		t.Fatalf("a change of %s has no answer, and the record says %+v", f.record.Writer, f.record)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f.silent["n1"] = true
	wantFault(t, f.san("engine/1").Detach(ctx, ref, "b", "n3"), decide.FaultUnavailable, "csi/1 is changing the volume group")
}

// TestSan_lateRecordIsNotWaitedFor: once the record was written anew, the turn goes on as any other.
func TestSan_lateRecordIsNotWaitedFor(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.during = func(string, string) { f.delay = 1 }
	if err := s.Detach(t.Context(), ref, "a", "n2"); err == nil || f.record.Taken != "csi/1" {
		t.Fatalf("%v, %+v", err, f.record)
	}
	f.during, f.delay = nil, 0
	for range 2 {
		version := f.version
		if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil || f.record.Taken != "" || f.record.Epoch != 1 || f.version > version+2 {
			t.Fatalf("%v, %+v after %d writes", err, f.record, f.version-version)
		}
	}
}
