package cluster

import (
	"testing"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// failOver replaces the leader by a standby that is older than the grace, and that nobody has told of any node yet.
func (s *suite) failOver() {
	s.pool.Close()
	s.pool = s.newPool(time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	s.restartController()
}

// introduce tells the new leader of all nodes.
func (s *suite) introduce() {
	s.t.Helper()
	for name, a := range s.agents {
		s.pool.SetAddress(name, a.Addr(), "pod-of-"+name)
	}
	s.pool.Complete()
	for name := range s.agents {
		s.await("agent of "+name+" connected", func() string { return up(s.pool, name) })
	}
}

// TestReconcile_failoverAndLostWord: a word that is not taken, since the agent reports the group, is not taken either by a new leader that
// has not heard of that agent yet. Deleting the Member cannot be taken back.
func TestReconcile_failoverAndLostWord(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	m := s.member("pool", "n2")
	m.Spec.Lost = string(m.UID)
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	refused := func(c *v1alpha1.Cluster) string {
		if m := s.member(c.Name, "n2"); m == nil || !m.DeletionTimestamp.IsZero() {
			t.Fatalf("the word was taken: %+v", m)
		}
		return hasCondition(ready, isFalse, v1alpha1.ReasonLost, "the word is not taken")(c)
	}
	s.until("pool", refused)
	s.failOver()
	for range 3 {
		if err := s.reconcile("pool"); err != nil {
			t.Fatal(err)
		}
		refused(s.get("pool"))
	}
	s.introduce()
	s.until("pool", refused)
}

// TestReconcile_failoverAndLostMember: a lost member that is being deleted came back with a volume in its group, of which no PersistentVolume
// is left. A new leader that has not heard of its agent yet does not give it free.
func TestReconcile_failoverAndLostMember(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.addVolume("pool", "n2", "quarry-pool", "v1")
	s.agents["n2"].Kill()
	s.until("pool", s.hasState("n2", "offline"))
	m := s.member("pool", "n2")
	m.Spec.Lost = string(m.UID)
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.until("pool", s.hasState("n2", "failed"))
	s.agents["n2"].Restart(t)
	s.await("agent of n2 connected", func() string { return up(s.pool, "n2") })
	s.deletePersistentVolume("v1")
	stays := func(c *v1alpha1.Cluster) string {
		if s.member(c.Name, "n2") == nil || len(c.Status.LostGroups) > 0 {
			t.Fatalf("the member was given free, lost groups are %v", c.Status.LostGroups)
		}
		return s.hasState("n2", "failed")(c)
	}
	s.until("pool", stays)
	s.failOver()
	for range 3 {
		if err := s.reconcile("pool"); err != nil {
			t.Fatal(err)
		}
		stays(s.get("pool"))
	}
	s.introduce()
	s.until("pool", stays)
}
