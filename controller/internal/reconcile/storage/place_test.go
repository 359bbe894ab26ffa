package storage

import (
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestPlace_handleNamesTheNode: a person made a PersistentVolume by hand, without the topology of the driver. It lives on the node that its
// handle names: the member stays while the volume does, even if nothing of it is seen.
func TestPlace_handleNamesTheNode(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	pv := volume("pool", v1alpha1.DriverLVM, "", "v1")
	pv.Spec.CSI.VolumeHandle = backendtest.Handle("n2", "v1")
	s.create(pv)
	s.list("pool", "n1")
	s.settle("pool")
	s.pass(10 * delay)
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() || len(m.Status.Holding) != 1 {
		t.Errorf("the member of a volume went: %+v", m)
	}
	s.removePV("v1")
	s.settle("pool")
	s.untilNoMember("n2")
}
