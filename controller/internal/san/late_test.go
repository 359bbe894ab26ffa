package san

import (
	"context"
	"testing"

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
