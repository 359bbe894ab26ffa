package san

import (
	"strings"
	"testing"
)

// TestSan_stranger: where no key tells, the word of another machine that has the name of a node takes no volume from it, and settles no change.
func TestSan_stranger(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	was := f.members[1]
	delete(f.keys, 2)
	f.members[1].Up, f.members[1].ReportedBootID, f.members[1].Stranger = false, "", "it is machine m2"
	// The other machine has no device of it, and says so.
	f.mapped["n2"] = nil
	if err := s.Detach(t.Context(), ref, "a", "n2"); err == nil || !strings.Contains(err.Error(), "it is machine m2") {
		t.Errorf("%v, want an error that names the machine", err)
	}
	if v := f.group.Volume("a"); v.HeldBy != "n2" {
		t.Fatalf("%+v", v)
	}
	if _, err := s.Attach(t.Context(), ref, "b", "n2"); err == nil || !strings.Contains(err.Error(), "it is machine m2") {
		t.Errorf("%v, want an error that names the machine", err)
	}
	f.members[1], f.keys[2] = was, true
	if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
}
