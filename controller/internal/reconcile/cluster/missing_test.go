package cluster

import (
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// lose takes disk sdc of n1 away, and waits until the controller knows.
func lose(s *suite) {
	s.t.Helper()
	s.agents["n1"].Unplug("sdc")
	s.await("the group without sdc", func() string {
		if g := s.pool.Node("n1").Groups; len(g) != 1 || !g[0].Partial {
			return "still complete"
		}
		return ""
	})
}

func TestReconcile_deleteWithDiskThatDied(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	lose(s)
	s.until("pool", hasPhase(v1alpha1.PhaseWarning))
	s.deleteCluster("pool")
	s.untilGone("pool")
	if !s.agents["n1"].IsEmpty("sdb") || s.agents["n1"].IsEmpty("sdc") {
		t.Error("the disk that is there is not clean, or the one that is away is")
	}
}

func TestReconcile_deleteWaitsForVolumesOfAPartialGroup(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.addVolume("pool", "n1", "quarry-pool", "v1")
	lose(s)
	s.deleteCluster("pool")
	s.until("pool", all(hasPhase(v1alpha1.PhaseDeleting), s.hasState("n1", "failed", "quarry-pool/v1")))
	if g := s.agents["n1"].Groups(); len(g) != 1 || len(g[0].Disks) != 2 {
		t.Errorf("groups: %+v", g)
	}
	s.agents["n1"].Plug("sdc")
	s.removeVolume("n1", "quarry-pool", "v1")
	s.untilGone("pool")
}

func TestReconcile_diskOfRemovedHostComesBack(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	lose(s)
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n2"} })
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), func(*v1alpha1.Cluster) string {
		if !s.agents["n1"].IsEmpty("sdb") {
			return "sdb is not clean"
		}
		return ""
	}))
	s.agents["n1"].Plug("sdc")
	s.until("pool", func(*v1alpha1.Cluster) string {
		if !s.agents["n1"].IsEmpty("sdc") {
			return "sdc is not clean"
		}
		return ""
	})
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}
