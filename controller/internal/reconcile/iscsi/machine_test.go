package iscsi

import (
	"testing"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestIscsi_anotherMachine: another machine that has the name of a node gets no key, and what it says takes no volume from the first one, until a person vouches that the first one is off.
// The same machine in another boot asks nobody.
func TestIscsi_anotherMachine(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	first := s.member("n2").Spec.Reservation
	if first.Machine != iscsitest.Machine("machine-of-n2") {
		t.Fatalf("%+v", first)
	}
	s.leave()
	s.san.Replace("n2", iscsitest.Machine("other"))
	s.untilPlan("every other machine that had the name of node n2 is off")
	s.rounds()
	if r := s.member("n2").Spec.Reservation; r.Key != first.Key || r.Machine != first.Machine || s.released(s.get("san")) == "" {
		t.Fatalf("without a person's word: %+v, %s", r, s.released(s.get("san")))
	}
	// The first machine's key waits for a word, too, once the second one has had none for long.
	s.approve(s.untilPlan("vouches that no other machine with the name of node n2 uses the LUN", "every other machine that had the name of node n2 is off"))
	s.until("san", s.released)
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	second := s.member("n2").Spec.Reservation
	if second.Machine != iscsitest.Machine("other") || second.Key == first.Key {
		t.Errorf("%+v", second)
	}
	s.san.Boot("n2")
	s.until("san", func(*v1alpha1.Iscsi) string {
		if r := s.member("n2").Spec.Reservation; r.Key == second.Key {
			return "n2 has the key of before"
		}
		return ""
	})
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
}
