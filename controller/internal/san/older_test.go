package san

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
)

// TestSan_olderGroup: nobody changes a group that is older than the one that was changed last, whichever process did that, until a person deletes the record.
func TestSan_olderGroup(t *testing.T) {
	f := newFleet("n1", "n2")
	csi, engine := f.san("csi/1"), f.san("engine/1")
	if _, err := csi.Attach(t.Context(), ref, "b", "n1"); err != nil {
		t.Fatal(err)
	}
	before := f.copy()
	if _, err := csi.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.group = before
	for _, s := range []*San{csi, engine} {
		_, err := s.Attach(t.Context(), ref, "a", "n1")
		wantFault(t, err, decide.FaultUnavailable, "at sequence number 3, and was at 4")
	}
	if v := f.group.Volume("a"); v.HeldBy != "" || f.record.Taken != "" || f.record.Sequence != 4 {
		t.Fatalf("%+v, %+v", v, f.record)
	}
	// The writer of before is away: the next one takes no older group over.
	f.silent["n1"] = true
	_, err := engine.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, err, decide.FaultUnavailable, "older")
	if f.group.Epoch != before.Epoch || f.record.Sequence != 4 {
		t.Fatalf("%+v, %+v", f.group, f.record)
	}
	f.silent["n1"] = false
	f.version = 0
	if _, err := engine.Attach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "n1", "n2", "n1")
}
