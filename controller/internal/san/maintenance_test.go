package san

import (
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
)

// maintain puts nodes under maintenance.
func (f *fleet) maintain(nodes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.members {
		f.members[i].Maintenance = f.members[i].Maintenance || slices.Contains(nodes, f.members[i].Node)
	}
}

// TestSan_maintenance: a node under maintenance is not the writer, gets no volume, and gives back those that it has.
func TestSan_maintenance(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	before := f.record.Writer
	f.maintain(before)
	_, err := s.Attach(t.Context(), ref, "b", before)
	wantFault(t, err, decide.FaultUnavailable, "under maintenance: end that")
	if f.record.Writer == before {
		t.Errorf("%s is still the writer", before)
	}
	f.maintain("n2")
	if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.maintain("n1", "n2", "n3")
	_, err = s.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, err, decide.FaultUnavailable, "no node that may write to the LUN answers")
}
