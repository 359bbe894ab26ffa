package storage

import (
	"errors"
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestTold_byThisController: what the status of a Member says counts as told by this controller only once it saw the host, and wrote what it saw.
func TestTold_byThisController(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	told := func(node string) bool { return s.clusters.Told.Until(s.time())(s.mustMember("pool", node).UID) }
	if !told("n1") || !told("n2") {
		t.Fatal("it looked at both")
	}
	s.lvm.Answer("n1", backendtest.Early)
	s.cached = deny(s.client, func(verb, name string) error {
		if verb == "patch status" && name == "pool.n2" {
			return errors.New("the API server is busy")
		}
		return nil
	})
	s.lvm.Answer("n2", backendtest.Dead)
	s.restartController()
	_, _ = s.reconcile("pool")
	if told("n1") || told("n2") {
		t.Errorf("of n1 nobody can say yet (%t), that of n2 could not be written (%t)", told("n1"), told("n2"))
	}
	s.cached = s.client
	s.lvm.Answer("n1", backendtest.Up)
	s.restartController()
	s.settle("pool")
	if !told("n1") || !told("n2") {
		t.Errorf("n1 answers (%t), and n2 is silent (%t)", told("n1"), told("n2"))
	}
}

// TestWatched: the status says that a device is missing, the host falls silent, and the controller begins anew. It writes of that device once more, and that is not taken for
// what the host says.
func TestWatched(t *testing.T) {
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	believed := func() (told, watched bool) {
		uid := s.mustMember("pool", "n1").UID
		return s.clusters.Told.Until(s.time())(uid), s.clusters.Watched.Until(s.time())(uid)
	}
	expect := func(when string, wantTold, wantWatched bool) {
		t.Helper()
		if told, watched := believed(); told != wantTold || watched != wantWatched {
			t.Errorf("%s: told %t, watched %t", when, told, watched)
		}
	}
	expect("it answers", true, true)
	m := s.mustMember("pool", "n1")
	m.Status.Devices[0].State = v1alpha1.DeviceMissing
	if err := s.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.lvm.Answer("n1", backendtest.Silent)
	s.restartController()
	s.settle("pool")
	expect("it is silent", true, false)
	if d := s.mustMember("pool", "n1").Status.Devices; len(d) != 1 || d[0].State != v1alpha1.DeviceMissing {
		t.Errorf("what was recorded is not kept: %+v", d)
	}
	s.lvm.Answer("n1", backendtest.Up)
	s.settle("pool")
	expect("it answers again", true, true)
	s.lvm.Blind("n1", true)
	s.settle("pool")
	expect("it answers, and cannot read its disks", true, false)
	s.lvm.Blind("n1", false)
	s.settle("pool")
	expect("it can again", true, true)
	s.lvm.Answer("n1", backendtest.Early)
	s.settle("pool")
	expect("nobody can say yet", true, false)
}
