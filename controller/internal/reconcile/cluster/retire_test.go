package cluster

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestReconcile_retire: a disk that the Member lists is emptied and given back, and nobody takes it afterwards. The agent dies in the middle of a
// move. A disk that does not exist is told at once.
func TestReconcile_retire(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	a := s.agents["n1"]
	s.add("pool", nil, "n1")
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning)))
	a.AddVolumeOn("quarry-pool", "data", "sdb", 1<<30)
	a.WriteVolume("quarry-pool", "data", "kept")
	retire := func(path string) {
		m := s.member("pool", "n1")
		m.Spec.Retire = []v1alpha1.RetiredDevice{{Path: v1alpha1.DevicePath(path)}}
		if err := s.client.Update(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
	retired := func(reason string) func(*v1alpha1.Cluster) string {
		return func(*v1alpha1.Cluster) string {
			c := meta.FindStatusCondition(s.member("pool", "n1").Status.Conditions, v1alpha1.ConditionRetired)
			if c == nil || c.Reason != reason {
				return "condition is not there, or another one"
			}
			return ""
		}
	}
	retire("/dev/disk/by-id/none")
	s.until("pool", retired(v1alpha1.ReasonDeviceNotFound))
	a.CrashAfter(1)
	retire(a.Path("sdb"))
	s.until("pool", hasCondition(ready, isFalse, v1alpha1.ReasonAgentUnreachable))
	a.Restart(t)
	s.until("pool", all(retired(v1alpha1.ReasonRetired), hasPhase(v1alpha1.PhaseRunning)))
	if got := s.disksOf("n1", string(s.get("pool").UID)); !slices.Equal(got, []string{"sdc"}) || !a.IsEmpty("sdb") {
		t.Errorf("disks of the group: %v, sdb is empty: %t", got, a.IsEmpty("sdb"))
	}
	if got := a.ReadVolume("quarry-pool", "data"); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("the volume holds %q", got)
	}
}

// TestReconcile_unfinishedMove: a person's pvmove was cut off. The agent leaves it alone and says so, and the Member does.
func TestReconcile_unfinishedMove(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	a := s.agents["n1"]
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	a.AddVolumeOn("quarry-pool", "data", "sdb", 1<<30)
	a.CutOffMove("quarry-pool", "sdb", 1<<30)
	s.until("pool", s.hasState("n1", "online", "was not finished", a.Path("sdb"), "so that a person began it"))
	if c := meta.FindStatusCondition(s.member("pool", "n1").Status.Conditions, ready); c == nil || c.Reason != v1alpha1.ReasonMoveUnfinished {
		t.Errorf("condition %+v", c)
	}
	a.CutOffMove("quarry-pool", "sdb", 0)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	a.RemoveVolume("quarry-pool", "data")
}
