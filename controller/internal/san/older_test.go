package san

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
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
	if v := f.group.Volume("a"); v.HeldBy != "" || f.record.Taken != "" || f.record.Noted.Sequence != 4 {
		t.Fatalf("%+v, %+v", v, f.record)
	}
	// The writer of before is away: the next one takes no older group over.
	f.silent["n1"] = true
	_, err := engine.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, err, decide.FaultUnavailable, "older")
	if f.group.Epoch != before.Epoch || f.record.Noted.Sequence != 4 {
		t.Fatalf("%+v, %+v", f.group, f.record)
	}
	f.silent["n1"] = false
	f.version = 0
	if _, err := engine.Attach(t.Context(), ref, "a", "n1"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "n1", "n2", "n1")
}

// TestSan_olderBeforeItIsNoted: a turn that is kept for the next one of its process, or whose last change has no answer, writes no record. What the process saw counts all the same, and the next write notes it.
func TestSan_olderBeforeItIsNoted(t *testing.T) {
	for name, lost := range map[string]bool{"the turn is kept": false, "a change has no answer": true} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2")
			csi, engine := f.san("csi/1"), f.san("engine/1")
			if _, err := csi.Attach(t.Context(), ref, "b", "n1"); err != nil {
				t.Fatal(err)
			}
			before := f.copy()
			m := csi.join(ref.OwnerUID)
			if _, err := csi.Attach(t.Context(), ref, "a", "n2"); err != nil || f.record.Noted.Sequence != before.Sequence {
				t.Fatalf("%v, %+v", err, f.record)
			}
			csi.part(m)
			if lost {
				f.lose = 1
				if err := csi.Detach(t.Context(), ref, "b", "n1"); err == nil {
					t.Fatal("the answer was not lost")
				}
			}
			f.group = before
			for _, s := range []*San{csi, engine, csi} {
				_, err := s.Attach(t.Context(), ref, "a", "n1")
				wantFault(t, err, decide.FaultUnavailable, "reads on the LUN is older than it was: it is at sequence number 3, and was at 4")
			}
			if v := f.group.Volume("a"); v.HeldBy != "" || f.record.Taken != "" || f.record.Noted != (writer.Mark{Group: "group", Sequence: 4}) {
				t.Fatalf("%+v, %+v", v, f.record)
			}
			// A person deletes the Lease, whichever process makes the next one.
			f.version = 0
			for _, s := range []*San{engine, csi} {
				if _, err := s.Attach(t.Context(), ref, "a", "n1"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSan_noteOfAnotherGroup: a group that was made anew under the same Iscsi is no older state of the one before it.
func TestSan_noteOfAnotherGroup(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "b", "n1"); err != nil {
		t.Fatal(err)
	}
	anew := ref
	anew.UUID = "anew"
	f.group = sharedlun.Group{UUID: anew.UUID, Sequence: 1, Volumes: []sharedlun.Volume{{Name: "a", UUID: "ua2"}}}
	if _, err := s.Attach(t.Context(), anew, "a", "n1"); err != nil || f.record.Noted.Group != anew.UUID {
		t.Fatalf("%v, %+v", err, f.record)
	}
	f.group.Sequence = f.record.Noted.Sequence - 1
	wantFault(t, s.Detach(t.Context(), anew, "a", "n1"), decide.FaultUnavailable, "older than it was")
}
