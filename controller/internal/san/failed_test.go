package san

import (
	"slices"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
)

// writtenBy is a fleet whose writer n1 has volume "a".
func writtenBy(t *testing.T) (*fleet, *San) {
	t.Helper()
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n1"); err != nil || f.record.Writer != "n1" {
		t.Fatalf("%v, %+v", err, f.record)
	}
	f.calls = nil
	return f, s
}

// TestSan_blindWriter: an agent that answers and has lost the LUN holds nobody up. Its own volumes can move, too.
func TestSan_blindWriter(t *testing.T) {
	f, s := writtenBy(t)
	f.blind["n1"] = true
	if err := s.Detach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
	if f.record.Writer != "n2" || f.record.Epoch != 2 || f.group.Epoch != 2 {
		t.Errorf("record %+v, group's epoch %d", f.record, f.group.Epoch)
	}
	if slices.Contains(f.calls, "promise n1") {
		t.Errorf("every change was answered, and n1 was asked to yield: %v", f.calls)
	}
	if _, err := s.Attach(t.Context(), ref, "a", "n3"); err != nil {
		t.Fatal(err)
	}
	// The group does not wander back without need.
	f.blind["n1"] = false
	if _, err := s.Attach(t.Context(), ref, "b", "n2"); err != nil || f.record.Epoch != 2 {
		t.Errorf("%v, %+v", err, f.record)
	}
}

// TestSan_refusedWriter: nor does one that reads, and may not write.
func TestSan_refusedWriter(t *testing.T) {
	f, s := writtenBy(t)
	delete(f.keys, 1)
	_, err := s.Attach(t.Context(), ref, "b", "n2")
	wantFault(t, err, decide.FaultPrecondition, "no key")
	if _, err := s.Attach(t.Context(), ref, "b", "n2"); err != nil || f.record.Writer != "n2" {
		t.Fatalf("%v, %+v", err, f.record)
	}
	f.want(t, "b", "n2", "n2")
}

// TestSan_refusedChange: a change that is refused for what it is leaves the writer what it is.
func TestSan_refusedChange(t *testing.T) {
	f, s := writtenBy(t)
	for range 3 {
		wantFault(t, s.Remove(t.Context(), ref, "a", "ua"), decide.FaultConflict, "not to be removed")
	}
	if f.record.Writer != "n1" || f.record.Epoch != 1 {
		t.Errorf("%+v", f.record)
	}
}

// TestSan_blindInAChange: what the old writer may have under way is settled before another one writes, as that of any other node.
func TestSan_blindInAChange(t *testing.T) {
	f, s := writtenBy(t)
	f.lose = 1
	wantFault(t, s.Detach(t.Context(), ref, "a", "n1"), decide.FaultUnavailable, "connection was closed")
	f.blind["n1"], f.stuck["n1"] = true, true
	f.calls = nil
	sequence := f.group.Sequence
	wantFault(t, s.Detach(t.Context(), ref, "a", "n1"), decide.FaultUnavailable, "may still run on n1 (another call is at work)")
	if f.group.Sequence != sequence || f.record.Writer != "n2" || !slices.Equal(f.record.Pending, []string{"n1"}) {
		t.Fatalf("n1 did not yield: group %+v, record %+v", f.group, f.record)
	}
	// Its command ends: it promises, without the LUN.
	f.stuck["n1"] = false
	if err := s.Detach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
	promised, changed := slices.Index(f.calls, "promise n1"), slices.Index(f.calls, "change n2")
	if promised < 0 || changed < promised || slices.Contains(f.calls, "change n1") {
		t.Errorf("%v", f.calls)
	}
}

// TestSan_blindInAChangeAndFenced: or it is fenced, and the keys are read back.
func TestSan_blindInAChangeAndFenced(t *testing.T) {
	f, s := writtenBy(t)
	f.lose = 1
	wantFault(t, s.Detach(t.Context(), ref, "a", "n1"), decide.FaultUnavailable, "connection was closed")
	f.blind["n1"], f.stuck["n1"] = true, true
	f.fence(0)
	f.keys[1] = true
	wantFault(t, s.Detach(t.Context(), ref, "a", "n1"), decide.FaultUnavailable, "its fence does not count: key 0000000000000001 of n1")
	delete(f.keys, 1)
	f.calls = nil
	if err := s.Detach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
	if read, changed := slices.Index(f.calls, "keys n2"), slices.Index(f.calls, "change n2"); read < 0 || changed < read {
		t.Errorf("%v", f.calls)
	}
}

// TestSan_allBlind: when no node is better the writer is tried again, and no epoch is lost over it.
func TestSan_allBlind(t *testing.T) {
	f, s := writtenBy(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		f.blind[n] = true
	}
	wantFault(t, s.Detach(t.Context(), ref, "a", "n1"), decide.FaultBusy, "no path is up")
	epoch := f.record.Epoch
	for range 5 {
		wantFault(t, s.Detach(t.Context(), ref, "a", "n1"), decide.FaultBusy, "no path is up")
	}
	if f.record.Epoch != epoch || epoch > 3 {
		t.Errorf("epoch %d, and then %+v", epoch, f.record)
	}
	f.blind[f.record.Writer] = false
	if err := s.Detach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
}

// TestSan_failedIsForgotten: whether a node has the LUN back tells only a call: after a while it may be the writer again.
func TestSan_failedIsForgotten(t *testing.T) {
	f, s := writtenBy(t)
	now := time.Now()
	s.cfg.Now = func() time.Time { return now }
	f.blind["n1"] = true
	if err := s.Detach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	f.blind["n1"], f.silent["n2"] = false, true
	if _, err := s.Attach(t.Context(), ref, "a", "n3"); err != nil || f.record.Writer != "n3" {
		t.Fatalf("%v, %+v", err, f.record)
	}
	f.silent["n2"], f.silent["n3"] = false, true
	now = now.Add(failedFor)
	if _, err := s.Attach(t.Context(), ref, "b", "n1"); err != nil || f.record.Writer != "n1" {
		t.Errorf("%v, %+v", err, f.record)
	}
}

// TestSan_keysUnread: a writer through which the keys cannot be read is another's turn to be it: by them a node's word and a fence are judged.
func TestSan_keysUnread(t *testing.T) {
	f, s := writtenBy(t)
	f.during = func(call, node string) { f.blind["n1"] = call == "keys" && node == "n1" }
	if err := s.Detach(t.Context(), ref, "a", "n1"); err == nil {
		t.Fatal("the keys were not read, and the node was believed")
	}
	if err := s.Detach(t.Context(), ref, "a", "n1"); err != nil || f.record.Writer != "n2" {
		t.Fatalf("%v, %+v", err, f.record)
	}
	f.want(t, "a", "")
}
