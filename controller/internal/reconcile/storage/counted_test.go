package storage

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// counted returns how many steps of all kinds the metric says were carried out.
func counted(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "quarry_steps_total" {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// Steps count when they are performed, even if their reconcile has ended before.
func TestMetric_countsStepsThatTakeLong(t *testing.T) {
	s := newSuite(t, "n1")
	s.impatient()
	before := counted(t)
	release := s.lvm.Block("n1")
	s.create(newCluster("pool", "n1"))
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if s.lvm.Attempts("n1") == 0 {
			return "no step was begun"
		}
		return ""
	})
	s.once("pool")
	release()
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if got := counted(t) - before; got != float64(s.lvm.Steps("n1")) || got == 0 {
		t.Errorf("%v steps are counted of %d", got, s.lvm.Steps("n1"))
	}
}
