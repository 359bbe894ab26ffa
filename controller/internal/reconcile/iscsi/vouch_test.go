package iscsi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// untilPlan reconciles until a plan waits whose steps give these reasons, in order.
func (s *suite) untilPlan(reasons ...string) *v1alpha1.Plan {
	s.t.Helper()
	return s.until("san", func(i *v1alpha1.Iscsi) string {
		p := i.Status.Plan
		if p == nil || p.Approved || len(p.Steps) != len(reasons) {
			return fmt.Sprintf("plan %+v; %s", p, i.Status.Message)
		}
		for n, r := range reasons {
			if c := lacks(p.Steps[n].Reason+" "+p.Steps[n].Consent, r); c != "" {
				return c
			}
		}
		return ""
	}).Status.Plan
}

// approve approves a plan of the Iscsi san.
func (s *suite) approve(p *v1alpha1.Plan) {
	s.t.Helper()
	s.edit(func(i *v1alpha1.Iscsi) { i.Annotations = map[string]string{v1alpha1.AnnotationApprove: p.Digest} })
}

// rounds reconciles for some minutes.
func (s *suite) rounds() {
	for range 10 {
		s.leap(30 * time.Second)
		_ = s.reconcile("san")
		time.Sleep(pause)
	}
}

// released says who holds the volume v1.
func (s *suite) released(i *v1alpha1.Iscsi) string {
	if v := s.san.Group(s.lun).Volume("v1"); v.HeldBy != "" {
		return fmt.Sprintf("v1 is held by %s; %s", v.HeldBy, i.Status.Message)
	}
	return ""
}

// TestIscsi_vouchServesOnce: a person vouches that a node is off, and it answers before it is fenced. Another step keeps the approval alive. When the node falls silent
// again, nobody has vouched for that.
func TestIscsi_vouchServesOnce(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.leave()
	// A request to register had no answer.
	m := s.member("n2")
	m.Spec.Reservation.Registering = "1"
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.san.KeepKey(s.lun, "stranger", 0x99)
	stuck := true
	s.san.Strike = func(call, _ string, _ bool) error {
		if stuck && call == "preempt" {
			return errors.New("the target is busy")
		}
		return nil
	}
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.taint(true)
	p := s.untilPlan("vouches that node n2 is off", "no fence counts and no node's word")
	s.approve(p)
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || !i.Status.Plan.Approved {
			return fmt.Sprintf("%+v", i.Status.Plan)
		}
		return ""
	})
	s.san.SetAgent("n2", decide.AgentUp)
	s.rounds()
	if now := s.get("san").Status.Plan; now == nil || !now.Approved || now.Digest == "" || len(now.Vouched) != 1 {
		t.Fatalf("the approval is not alive: %+v", now)
	}
	s.san.SetAgent("n2", decide.AgentUnreachable)
	stuck = false
	again := s.untilPlan("vouches that node n2 is off", "no fence counts and no node's word")
	s.rounds()
	if r := s.member("n2").Spec.Reservation; r.Fenced || s.san.Keys(s.lun)["n2"] == 0 || s.released(s.get("san")) == "" {
		t.Fatalf("fenced by a word that was given before: %+v", r)
	}
	s.approve(again)
	s.until("san", s.released)
}

// TestIscsi_vouchOfABackup: a person vouches that a node is off, and the controller starts anew before it is fenced, as after a restore of the API server: nobody knows how old the
// approval is. The person is asked once more.
func TestIscsi_vouchOfABackup(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.leave()
	m := s.member("n2")
	m.Spec.Reservation.Registering = "1"
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.taint(true)
	p := s.untilPlan("vouches that node n2 is off")
	s.approve(p)
	s.restart()
	again := s.untilPlan("vouches that node n2 is off")
	s.rounds()
	if r := s.member("n2").Spec.Reservation; r.Fenced || s.san.Keys(s.lun)["n2"] == 0 || again.Digest == p.Digest {
		t.Fatalf("fenced by a word that was given before: %+v", r)
	}
	s.told("ApprovalDropped", p.Digest)
	s.approve(s.get("san").Status.Plan)
	s.until("san", s.released)
}

// TestIscsi_bootWithoutKey: a node was booted and cannot log in, so that its key of before stays. Where the record says that the machine had it which answers now, it is taken off, and the
// volume goes on elsewhere. Where it does not say, as that of an earlier version, a person approves that.
func TestIscsi_bootWithoutKey(t *testing.T) {
	for name, known := range map[string]bool{"the machine is on record": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			s.add("san", nil, "n1", "n2")
			s.until("san", hasPhase(v1alpha1.PhaseRunning))
			s.volume("n2")
			if m := s.member("n2"); !known {
				m.Spec.Reservation.Machine = ""
				if err := s.client.Update(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			s.leave()
			s.san.Boot("n2")
			s.san.SetInitiator("n2", func(i *sharedlun.Initiator) { i.Problem = sharedlun.NewProblem(sharedlun.ReasonNoModules, "none") })
			if !known {
				p := s.untilPlan("vouches that no other machine with the name of node n2 uses the LUN")
				s.rounds()
				if s.san.Keys(s.lun)["n2"] == 0 || s.released(s.get("san")) == "" {
					t.Fatalf("the key was taken off without a person's word: %v", s.san.Keys(s.lun))
				}
				s.approve(p)
			}
			s.until("san", s.released)
			if p := s.get("san").Status.Plan; known && p != nil && len(p.Steps) > 0 {
				t.Errorf("a person is asked: %+v", p)
			}
			s.san.SetInitiator("n2", func(i *sharedlun.Initiator) { i.Problem = nil })
			s.until("san", hasPhase(v1alpha1.PhaseRunning))
			if s.san.Keys(s.lun)["n2"] == 0 {
				t.Error("n2 has no key")
			}
		})
	}
}

// TestIscsi_restoredToBeforeEveryBoot: each node has a key on the LUN that no Member has, so that none can register, and none can take the key of another one off.
func TestIscsi_restoredToBeforeEveryBoot(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	backup := map[string]v1alpha1.MemberReservation{"n1": *s.member("n1").Spec.Reservation, "n2": *s.member("n2").Spec.Reservation}
	s.san.Boot("n1")
	s.san.Boot("n2")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		for n, r := range backup {
			if now := s.member(n).Spec.Reservation; now.Key == r.Key || now.Registering != "" || s.san.Keys(s.lun)[n] == 0 {
				return fmt.Sprintf("%+v; %s", now, i.Status.Message)
			}
		}
		return ""
	})
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.restart()
	s.volume("n2")
	for n, r := range backup {
		m := s.member(n)
		m.Spec.Reservation = &r
		if err := s.client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	lost := s.san.Keys(s.lun)
	// n2 has a volume mapped: nobody asks for it.
	p := s.untilPlan("no other machine has the name of the initiator of node n1, iqn.2026-01.storage.quarry:n1")
	s.rounds()
	if now := s.san.Keys(s.lun); now["n1"] != lost["n1"] {
		t.Fatalf("the key was replaced without a person's word: %v, was %v", now, lost)
	}
	s.approve(p)
	// Its own key is replaced, and nobody else's. The next plan takes that one off.
	next := s.untilPlan(fmt.Sprintf("no fence counts and no node's word: %016x.", lost["n2"]))
	if now := s.san.Keys(s.lun); now["n2"] != lost["n2"] || now["n1"] == lost["n1"] || s.member("n1").Spec.Reservation.Registering != "" {
		t.Fatalf("%v, was %v; %+v", now, lost, s.member("n1").Spec.Reservation)
	}
	s.approve(next)
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if s.san.Keys(s.lun)["n2"] != 0 {
			return i.Status.Message
		}
		return ""
	})
	s.san.Boot("n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	if on := s.san.Mapped("uuid-v1"); !slices.Equal(on, []string{"n2"}) {
		t.Errorf("v1 is mapped on %v", on)
	}
}

// TestIscsi_holderWithoutKey: a node that no Member names, and of which no key is on record, has a volume, as after a restore of the API server to before it joined. It is off.
func TestIscsi_holderWithoutKey(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.san.KeepKey(s.lun, "n2", 0x77)
	s.untilPlan("no fence counts and no node's word")
	s.taint(true)
	// Who knows whose key that is? The fence counts once it is off.
	p := s.untilPlan("no key of it is on record", "no fence counts and no node's word")
	s.approve(p)
	s.until("san", s.released)
	if v := s.san.Group(s.lun).Volume("v1"); !slices.Equal(v.Readers, []sharedlun.Boot{{Node: "n2", ID: sharedlun.UnknownBoot}}) || len(s.san.Keys(s.lun)) != 1 {
		t.Fatalf("%+v, keys %v", v, s.san.Keys(s.lun))
	}
	// It is no initiator, and away: nobody but a person can say that it does not read any more.
	s.approve(s.untilPlan("Whoever approves vouches that node n2 is off, or was booted since it was fenced."))
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if v := s.san.Group(s.lun).Volume("v1"); len(v.Readers) > 0 {
			return fmt.Sprintf("%+v; %s", v, i.Status.Message)
		}
		return ""
	})
}

// TestIscsi_volumeOfAnotherGroup: a PersistentVolume that somebody made by hand stops nothing but itself.
func TestIscsi_volumeOfAnotherGroup(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	pv := &corev1.PersistentVolume{}
	if err := s.client.Get(t.Context(), types.NamespacedName{Name: "pv-v1"}, pv); err != nil {
		t.Fatal(err)
	}
	pv.ObjectMeta = metav1.ObjectMeta{Name: "by-hand"}
	pv.Spec.CSI.VolumeHandle = strings.Replace(pv.Spec.CSI.VolumeHandle, iscsitest.GroupUUID[:6], "Zz3dEf", 1)
	s.create(pv)
	s.until("san", hasCondition(v1alpha1.ConditionVolumesOfGroup, metav1.ConditionFalse, v1alpha1.ReasonOtherGroup, "by-hand"))
	s.until("san", hasPhase(v1alpha1.PhaseWarning))
	if c := hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)(s.get("san")); c != "" {
		t.Error(c)
	}
	// All else goes on: a node is booted, and its volume is mapped again.
	s.san.Boot("n2")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if on := s.san.Mapped("uuid-v1"); !slices.Equal(on, []string{"n2"}) {
			return fmt.Sprintf("v1 is mapped on %v; %s", on, i.Status.Message)
		}
		return ""
	})
	s.deleteVolume("by-hand")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
}
