package san

import (
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
)

// TestSan_fencedWriterWithoutKeys: nor does its fence settle a change that had no answer. It may still make it.
func TestSan_fencedWriterWithoutKeys(t *testing.T) {
	f := withoutKeys("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "b", "n3"); err != nil {
		t.Fatal(err)
	}
	f.lose, f.stuck["n1"] = 1, true
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err == nil {
		t.Fatal("the answer was not lost")
	}
	f.members[0].Fenced = true
	before := f.group.Sequence
	_, err := s.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, err, decide.FaultUnavailable, "may still run on n1 (another call is at work)")
	f.silent["n1"], f.members[0].TooEarly = true, true
	_, early := s.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, early, decide.FaultUnavailable, "may still run on n1 (no connection)")
	if f.group.Sequence != before {
		t.Errorf("changed in epoch %d beside a change of n1", f.group.Epoch)
	}
	f.members[0].TooEarly = false
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Error(err)
	}
}

// TestSan_fencedWithoutKeys: where no key keeps a fenced node from writing, a person vouched that it is off. One that answers all the same is not: its volume goes to nobody before its device is gone, or
// returns errors. What it refused before it did anything, and what it did not answer in time, says nothing of the device.
func TestSan_fencedWithoutKeys(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fleet)
		kind   decide.FaultKind
		says   string
		frees  bool
	}{
		"it is silent":                      {change: func(f *fleet) { f.silent["n2"] = true }, frees: true},
		"it unmaps":                         {change: func(*fleet) {}, frees: true},
		"it has it open, and ended its I/O": {change: func(f *fleet) { f.inUse["ua"] = true }, frees: true},
		"another call works on the volume there": {
			change: func(f *fleet) {
				f.refuse = func(node string) error {
					return f.refusal(decide.FaultBusy, node, "unmap", "another call works on the volume")
				}
			},
			kind: decide.FaultBusy, says: "another call works",
		},
		"it does not answer in time": {
			change: func(f *fleet) {
				f.refuse = func(node string) error { return f.fault(decide.FaultUnavailable, node, "unmap", "deadline exceeded") }
			},
			kind: decide.FaultUnavailable, says: "deadline exceeded",
		},
		"the connection to its agent is being made": {
			change: func(f *fleet) { f.silent["n2"], f.members[1].TooEarly = true, true },
			kind:   decide.FaultUnavailable, says: "no connection",
		},
		"it answers only once it was asked": {
			change: func(f *fleet) {
				f.silent["n2"] = true
				f.during = func(call, node string) {
					if call == "unmap" && f.silent[node] {
						f.silent[node], f.during = false, nil
						f.refuse = func(node string) error {
							return f.fault(decide.FaultUnavailable, node, "unmap", "the connection was closed")
						}
					}
				}
			},
			kind: decide.FaultUnavailable, says: "connection was closed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := withoutKeys("n1", "n2", "n3")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.members[1].Fenced = true
			c.change(f)
			err := s.Detach(t.Context(), ref, "a", "n2")
			if v := f.group.Volume("a"); (v.HeldBy == "") != c.frees {
				t.Errorf("%+v, %v", v, err)
			}
			if c.frees && err != nil {
				t.Error(err)
			}
			if !c.frees {
				if wantFault(t, err, c.kind, c.says); err == nil || !strings.Contains(err.Error(), "It is asked again") {
					t.Errorf("%v does not say what to do", err)
				}
			}
			f.refuse, f.members[1].TooEarly = nil, false
			if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
				t.Error(err)
			}
		})
	}
}
