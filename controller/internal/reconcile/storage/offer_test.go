package storage

import (
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// An approval that fits nothing is kept while a host is silent. It is about a plan that is over: when the same steps are wanted once more, a person is asked once more.
func TestApproval_thatFitsNothingDoesNotServeLater(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.create(manual("n1", "n2"))
	before := s.until("pool", waits(2)).Status.Plan.Digest
	// Under another spec n1 needs other steps, and then the same as before.
	s.lvm.Answer("n2", backendtest.Silent)
	s.lvm.Dirty("n1", "sdb")
	s.until("pool", waits(3))
	s.approve(before)
	s.settle("pool")
	if s.get("pool").Annotations[v1alpha1.AnnotationApprove] == "" {
		t.Fatal("dropped while a host is silent")
	}
	s.lvm.Clean("n1")
	s.until("pool", waits(2))
	s.settle("pool")
	if len(s.lvm.Log()) != 0 {
		t.Errorf("an approval that fitted nothing served: %v", s.lvm.Log())
	}
	s.lvm.Answer("n2", backendtest.Up)
	s.drain()
	s.settle("pool")
	s.unapproved("n1", "n2")
	s.told("ApprovalDropped", before)
	s.approve(s.get("pool").Status.Plan.Digest)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

// A list of steps takes minutes, and the person takes the approval away meanwhile: what was not begun is not.
func TestApproval_isAskedForBeforeEachStep(t *testing.T) {
	s := newSuite(t, "n1")
	s.lvm.Dirty("n1", "sdb", "sdc")
	s.create(newCluster("pool", "n1"))
	digest := s.until("pool", waits(3)).Status.Plan.Digest
	s.lvm.Before(func(string, backendtest.Step) error {
		s.approveMember("n1", "")
		return nil
	})
	s.approve(digest)
	for range 5 {
		s.once("pool")
	}
	if log := s.lvm.Log(); len(log) != 1 {
		t.Errorf("steps whose approval was taken away: %v", log)
	}
	s.lvm.Before(nil)
	s.approve(s.until("pool", waits(2)).Status.Plan.Digest)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}
