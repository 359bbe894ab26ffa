package storage

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMaintenance_isAskedForInThreePlacesAndCopiedToNone(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	sources := func(want ...v1alpha1.MaintenanceSource) func(m *v1alpha1.Member) string {
		return func(m *v1alpha1.Member) string {
			if !slices.Equal(m.Status.Maintenance, want) {
				return "sources"
			}
			return ""
		}
	}
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = hostNames("n2") })
	m := s.untilMember("n2", inState("quiesced"), sources(v1alpha1.KindCluster), memberHas(ready, isFalse, v1alpha1.ReasonMaintenance))
	if m.Spec.Maintenance {
		t.Error("the maintenance of the Cluster was copied to the Member")
	}
	s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	s.maintainNode(true)
	s.untilMember("n2", sources(v1alpha1.KindCluster, v1alpha1.MaintenanceMember, v1alpha1.MaintenanceStorageNode))
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = nil })
	s.untilMember("n2", inState("quiesced"), sources(v1alpha1.MaintenanceMember, v1alpha1.MaintenanceStorageNode))
	s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = false })
	s.untilMember("n2", inState("quiesced"), sources(v1alpha1.MaintenanceStorageNode))
	s.maintainNode(false)
	s.untilMember("n2", inState("online"), sources(), memberHas(ready, isTrue, v1alpha1.ReasonReady))
	if complaint := inState("online")(s.mustMember("pool", "n1")); complaint != "" {
		t.Error(complaint)
	}
}

func TestMaintenance_noStepWhileQuiesced(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	// Even a backend that wants steps gets none.
	s.lvm.Obstinate()
	c := newCluster("pool", "n1", "n2")
	c.Spec.Maintenance = hostNames("n2")
	s.create(c)
	s.untilMember("n1", inState("online"), memberHas(ready, isTrue, v1alpha1.ReasonReady))
	s.settle("pool")
	m := s.mustMember("pool", "n2")
	if s.lvm.Attempts("n2") != 0 || m.Spec.Group != nil || m.Status.State != "quiesced" {
		t.Errorf("steps under maintenance: %v, record %+v, state %s", s.lvm.Log(), m.Spec.Group, m.Status.State)
	}
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = nil })
	s.untilMember("n2", inState("online"))
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
}

// A deletion outranks maintenance: a person obeyed at once.
func TestMaintenance_doesNotHoldADeletionUp(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.editMember("n2", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	s.settle("pool")
	s.delete(s.mustMember("pool", "n2"))
	s.untilNoMember("n2")
	if !s.lvm.Empty("n2") {
		t.Error("not torn down")
	}
}

func TestMaintenance_keepsAnApprovalForLater(t *testing.T) {
	s := newSuite(t, "n1")
	s.lvm.Dirty("n1", "sdb")
	s.create(newCluster("pool", "n1"))
	c := s.until("pool", waits(2))
	s.drain()
	s.editMember("n1", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	s.settle("pool")
	s.approve(c.Status.Plan.Digest)
	s.settle("pool")
	if s.lvm.Attempts("n1") != 0 {
		t.Fatalf("steps under maintenance: %v", s.lvm.Log())
	}
	s.editMember("n1", func(m *v1alpha1.Member) { m.Spec.Maintenance = false })
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.notTold("fits no plan")
}

func TestSources_nameTheKindOfTheStorage(t *testing.T) {
	for _, kind := range []string{v1alpha1.KindCluster, "Other"} {
		s := &scope{owner: backend.Owner{Kind: kind}, common: v1alpha1.StorageCommon{Maintenance: hostNames("n1")}}
		if got := s.sources("n1"); len(got) != 1 || string(got[0]) != kind {
			t.Errorf("maintenance in the spec of a storage of kind %s comes from %v", kind, got)
		}
		if got := s.sources("n2"); len(got) != 0 {
			t.Errorf("maintenance of a host that is not listed comes from %v", got)
		}
	}
}

// A loss that a host told of before it fell silent stays a loss, also once maintenance excuses that nobody hears the host.
func TestMaintenance_doesNotForgetALossOfASilentHost(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.lvm.Problem("n2", backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonVolumeLost, Message: "no logical volume exists of v1"})
	s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(ready, isFalse, v1alpha1.ReasonVolumeLost, "no logical volume exists of v1"))
	s.lvm.Answer("n2", backendtest.Silent)
	s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(ready, isFalse, v1alpha1.ReasonAgentUnreachable, "n2"))
	s.settle("pool")
	s.restartController()
	s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = hostNames("n2") })
	s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(ready, isFalse, v1alpha1.ReasonVolumeLost, "no logical volume exists of v1"))
	s.untilMember("n2", inState("quiesced"), memberHas(v1alpha1.ConditionSound, isFalse, v1alpha1.ReasonVolumeLost))
	s.settle("pool")
	s.until("pool", has(ready, isFalse, v1alpha1.ReasonVolumeLost, "no logical volume exists of v1"))
	s.lvm.Problem("n2", backend.Finding{})
	s.lvm.Answer("n2", backendtest.Up)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if m := s.untilMember("n2", inState("quiesced")); meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionSound) != nil {
		t.Errorf("still remembered: %+v", m.Status.Conditions)
	}
}
