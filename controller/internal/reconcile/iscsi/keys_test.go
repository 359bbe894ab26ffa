package iscsi

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// reserved checks that the LUN is reserved, and has so many keys.
func (s *suite) reserved(keys int) func(*v1alpha1.Iscsi) string {
	return func(i *v1alpha1.Iscsi) string {
		r, err := s.san.Reservation(s.t.Context(), "n1", s.lun.Identity, false)
		if err != nil || !r.Held() || len(r.Keys) != keys {
			return fmt.Sprintf("%+v, %v; %s", r, err, i.Status.Message)
		}
		return ""
	}
}

// waits reconciles for some minutes, in which the LUN is not reserved.
func (s *suite) waits() {
	s.t.Helper()
	for range 20 {
		s.leap(10 * time.Second)
		if err := s.reconcile("san"); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(pause)
	}
	if r, err := s.san.Reservation(s.t.Context(), "n1", s.lun.Identity, false); err != nil || r.Held() {
		s.t.Fatalf("%+v, %v", r, err)
	}
}

// TestIscsi_lostKeys: the target forgets its keys while a node works. Whoever is idle does not shut it out, whether it answers or not.
func TestIscsi_lostKeys(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add("san", nil, "n1", "n2", "n3")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.san.LoseKeys(s.lun)
	s.until("san", s.reserved(3))
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	if now := s.san.Mapped("uuid-v1"); len(now) != 1 || now[0] != "n2" {
		t.Errorf("v1 is mapped on %v", now)
	}
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.san.LoseKeys(s.lun)
	s.waits()
	s.until("san", hasCondition(v1alpha1.ConditionFencingPossible, metav1.ConditionFalse, v1alpha1.ReasonNotReserved, "which have volumes mapped: n2."))
	// A person says that it is off. It was not: it may not write any more.
	s.taint(true)
	s.until("san", s.reserved(2))
	s.san.SetAgent("n2", decide.AgentUp)
	s.taint(false)
	s.until("san", func(*v1alpha1.Iscsi) string { return lacks(s.member("n2").Status.Message, "Drain or boot the node") })
	s.san.Boot("n2")
	s.until("san", s.reserved(3))
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
}

// TestIscsi_reservationsLater: somebody turns reservations on. Nodes that run are not locked out by one that is booted; when nothing is mapped all get keys.
func TestIscsi_reservationsLater(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.NoReservations = true })
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseWarning))
	s.volume("n2")
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.NoReservations = false })
	s.san.Boot("n1")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if r := s.member("n1").Spec.Reservation; r.BootID != "n1-boot-1+" || !r.Unfenced {
			return fmt.Sprintf("%+v; %s", r, i.Status.Message)
		}
		return ""
	})
	s.waits()
	s.until("san", hasCondition(v1alpha1.ConditionFencingPossible, metav1.ConditionFalse, v1alpha1.ReasonNoReservations, "stop the pods"))
	s.san.DropVolume(s.lun, "v1")
	s.until("san", s.reserved(2))
	s.until("san", hasCondition(v1alpha1.ConditionFencingPossible, metav1.ConditionTrue, v1alpha1.ReasonFencingPossible))
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
}

// TestIscsi_lunInUse: somebody uses the LUN on a node that is not the one that would wipe it.
func TestIscsi_lunInUse(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.Content = "The device carries an ext4 filesystem." })
	s.san.SetUse("n2", "mount /srv of sdb")
	s.add("san", func(spec *v1alpha1.IscsiSpec) { spec.Wipe = s.lun.Identity.WWID }, "n1", "n2")
	s.until("san", hasCondition(v1alpha1.ConditionLunReady, metav1.ConditionFalse, v1alpha1.ReasonLunInUse, "n2", "mount /srv of sdb"))
	if keys := s.san.Keys(s.lun); len(keys) > 0 {
		t.Errorf("keys %v", keys)
	}
	s.san.SetUse("n2", "")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || len(i.Status.Plan.Steps) != 1 {
			return "no plan: " + i.Status.Message
		}
		return ""
	})
	if s.san.Group(s.lun) != nil {
		t.Error("the LUN was taken without approval")
	}
}
