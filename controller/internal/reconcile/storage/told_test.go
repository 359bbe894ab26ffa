package storage

import (
	"errors"
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
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
