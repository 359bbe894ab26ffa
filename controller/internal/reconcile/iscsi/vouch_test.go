package iscsi

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
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
			if c := lacks(p.Steps[n].Reason, r); c != "" {
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
		s.ahead += 30 * time.Second
		_ = s.reconcile("san")
		time.Sleep(2 * time.Millisecond)
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
	m.Spec.Reservation.Registering = true
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
	p := s.untilPlan("vouches that the node is off", "no Member has on record")
	s.san.SetAgent("n2", decide.AgentUp)
	s.approve(p)
	s.rounds()
	if now := s.get("san").Status.Plan; now == nil || !now.Approved || now.Digest == "" || len(now.Vouched) != 1 {
		t.Fatalf("the approval is not alive: %+v", now)
	}
	s.san.SetAgent("n2", decide.AgentUnreachable)
	stuck = false
	again := s.untilPlan("vouches that the node is off", "no Member has on record")
	s.rounds()
	if r := s.member("n2").Spec.Reservation; r.Fenced || s.san.Keys(s.lun)["n2"] == 0 || s.released(s.get("san")) == "" {
		t.Fatalf("fenced by a word that was given before: %+v", r)
	}
	s.approve(again)
	s.until("san", s.released)
}
