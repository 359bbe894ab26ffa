package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestWhole_holdsTheStepsOfHostsBack(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := newCluster("pool", "n1", "n2")
	s.create(c)
	s.lvm.Hold(c.UID, "n2", "waits until n1 is clean")
	s.untilMember("n1", memberHas(ready, isTrue, v1alpha1.ReasonReady))
	m := s.untilMember("n2", inState("online", "waits until n1 is clean"))
	s.settle("pool")
	if s.lvm.Attempts("n2") != 0 || m.Spec.Group != nil {
		t.Errorf("steps of a host that is held back: %v, record %+v", s.lvm.Log(), m.Spec.Group)
	}
	s.lvm.Hold(c.UID, "n2", "")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestWhole_stepsRunOnTheHostThatTheyName(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := newCluster("pool", "n1", "n2")
	s.create(c)
	s.lvm.WholeStep(c.UID, "n2", "table", false, false)
	s.lvm.WholeStep(c.UID, "n2", "later", false, true)
	s.until("pool", func(*v1alpha1.Cluster) string {
		if log := s.lvm.Log(); !slices.Contains(log, "whole via n2: ChangeShare table") {
			return fmt.Sprint(log)
		}
		return ""
	})
	s.settle("pool")
	if log := strings.Join(s.lvm.Log(), ", "); strings.Contains(log, "later") {
		t.Errorf("a step ran that cannot run yet: %s", log)
	}
	s.lvm.Possible(c.UID)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if log := strings.Join(s.lvm.Log(), ", "); !strings.Contains(log, "whole via n2: ChangeShare later") {
		t.Error(log)
	}
}

func TestWhole_stepsWaitForApprovalWithThoseOfTheMembers(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := manual("n1", "n2")
	s.create(c)
	for _, what := range []string{"a", "b"} {
		s.lvm.WholeStep(c.UID, "n1", what, what == "b", what == "b")
	}
	c = s.until("pool", waits(4))
	if len(s.lvm.Log()) != 0 || c.Status.Plan.Steps[0].Host != "" || c.Status.Plan.Steps[2].Host != "n1" {
		t.Fatalf("steps %v, plan %+v", s.lvm.Log(), c.Status.Plan)
	}
	s.drain()
	s.approve(c.Status.Plan.Digest)
	done := func(log ...string) func(*v1alpha1.Cluster) string {
		return func(*v1alpha1.Cluster) string {
			have := s.lvm.Log()
			for _, l := range log {
				if !slices.Contains(have, l) {
					return fmt.Sprintf("%q is not in %q", l, have)
				}
			}
			return ""
		}
	}
	s.until("pool", done("whole via n1: ChangeShare a", "n1: EnsureVolumeGroup group", "n2: EnsureVolumeGroup group"))
	// What comes later is approved already, whatever becomes of the controller or waits on a host meanwhile.
	s.restartController()
	s.lvm.Dirty("n2", "sdx")
	c = s.until("pool", waits(1))
	s.settle("pool")
	s.lvm.Possible(c.UID)
	s.until("pool", done("whole via n1: ChangeShare b"))
	s.settle("pool")
	s.unapproved("n1", "n2")
	s.notTold("fits no plan")
}

func TestWhole_aStepThatDestroysAlwaysWaits(t *testing.T) {
	s := newSuite(t, "n1")
	c := newCluster("pool", "n1")
	s.create(c)
	s.lvm.WholeStep(c.UID, "n1", "format", true, false)
	c = s.until("pool", waits(1))
	s.settle("pool")
	if slices.Contains(s.lvm.Log(), "whole via n1: ChangeShare format") {
		t.Fatal("it did not wait")
	}
	s.drain()
	s.approve(c.Status.Plan.Digest)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.unapproved("n1")
	s.notTold("fits no plan")
}

func TestWhole_failureIsShown(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.lvm.WholeStep(c.UID, "n2", "table", false, false)
	s.lvm.FailAt("n2", 1, backendtest.ErrBroken)
	s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(ready, isFalse, v1alpha1.ReasonStepFailed, "broken"))
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

// What fails of a host is no failure of the whole whose steps run via it, and the reverse.
func TestWhole_failuresOfTheHostItRunsOnAreNotItsOwn(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := newCluster("pool", "n1", "n2")
	s.create(c)
	s.lvm.WholeStep(c.UID, "n2", "table", false, false)
	s.lvm.FailAt("n2", 1, backendtest.ErrBroken)
	c = s.until("pool", func(*v1alpha1.Cluster) string {
		if log := s.lvm.Log(); !slices.Contains(log, "whole via n2: ChangeShare table") {
			return fmt.Sprint(log)
		}
		return ""
	})
	if strings.Count(c.Status.Message, "broken") > 1 || strings.HasPrefix(c.Status.Message, "broken") {
		t.Errorf("message %q", c.Status.Message)
	}
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestWhole_noStepRunsViaAHostUnderMaintenance(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.editMember("n1", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	s.untilMember("n1", inState("quiesced"))
	s.lvm.WholeStep(c.UID, "n1", "table", false, false)
	s.settle("pool")
	if s.lvm.Steps("n1") != 1 {
		t.Errorf("steps %v", s.lvm.Log())
	}
}

func TestWhole_holdsTheDeletionUp(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.driver.install(false)
	s.lvm.Holding(c.UID, "export-1")
	s.delete(s.get("pool"))
	s.until("pool", hasPhase(v1alpha1.PhaseDeleting), has(ready, isFalse, v1alpha1.ReasonDeleting, "export-1"))
	s.settle("pool")
	if s.lvm.Group(c.UID, "n1") == nil {
		t.Error("torn down while something holds the deletion")
	}
	s.lvm.Holding(c.UID)
	s.lvm.WholeStep(c.UID, "n1", "table", false, true)
	for range 5 {
		s.once("pool")
	}
	if c := s.get("pool"); len(c.Finalizers) == 0 {
		t.Error("given free while a step of the whole is left")
	}
	s.lvm.Possible(c.UID)
	s.untilGone("pool")
}

// TestWhole_guardsWhileVolumesHoldTheDeletion: of a storage whose deletion waits for volumes nothing is changed, but its data are kept from harm.
func TestWhole_guardsWhileVolumesHoldTheDeletion(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.addVolume(c, "n1", "v1")
	s.delete(c)
	s.settle("pool")
	s.lvm.WholeStep(c.UID, "n1", "table", false, false)
	s.lvm.GuardStep(c.UID, "fence")
	s.until("pool", func(*v1alpha1.Cluster) string {
		if log := s.lvm.Log(); !slices.Contains(log, "whole via : ChangeShare fence") {
			return fmt.Sprint(log)
		}
		return ""
	})
	s.settle("pool")
	if log := strings.Join(s.lvm.Log(), ", "); strings.Contains(log, "table") {
		t.Errorf("a step ran that is no guard: %s", log)
	}
}
