package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// waits checks that a plan with a number of steps waits for approval.
func waits(steps int32) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		if p := c.Status.Plan; p == nil || p.Approved || p.Count != steps {
			return fmt.Sprintf("plan %+v, want %d steps that wait: %s", p, steps, c.Status.Message)
		}
		return has(v1alpha1.ConditionPlanApproved, isFalse, v1alpha1.ReasonApprovalRequired, c.Status.Plan.Digest)(c)
	}
}

// approve approves the plan of the Cluster pool.
func (s *suite) approve(digest string) {
	s.t.Helper()
	s.edit("pool", func(c *v1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationApprove, digest)
	})
}

// approveMember approves the plan of a Member of the Cluster pool.
func (s *suite) approveMember(node, digest string) {
	s.t.Helper()
	s.editMember(node, func(m *v1alpha1.Member) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationApprove, digest)
	})
}

// unapproved checks that no annotation is left.
func (s *suite) unapproved(nodes ...string) {
	s.t.Helper()
	if a := s.get("pool").Annotations[v1alpha1.AnnotationApprove]; a != "" {
		s.t.Errorf("the approval %s is left on the Cluster", a)
	}
	for _, n := range nodes {
		if a := s.mustMember("pool", n).Annotations[v1alpha1.AnnotationApprove]; a != "" {
			s.t.Errorf("the approval %s is left on the member of %s", a, n)
		}
	}
}

// manual returns the Cluster pool, whose steps all wait for approval.
func manual(hosts ...string) *v1alpha1.Cluster {
	c := newCluster("pool", hosts...)
	c.Spec.Approval = v1alpha1.ApprovalManual
	return c
}

func TestApproval_ofOneMember(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.create(manual("n1", "n2"))
	s.until("pool", waits(2))
	if len(s.lvm.Log()) != 0 {
		t.Fatalf("steps before the approval: %v", s.lvm.Log())
	}
	p1, p2 := s.mustMember("pool", "n1").Status.Plan, s.mustMember("pool", "n2").Status.Plan
	if p1 == nil || p2 == nil || p1.Digest == p2.Digest || len(p1.Steps) != 1 || p1.Steps[0].Host != "n1" {
		t.Fatalf("plans %+v, %+v", p1, p2)
	}
	s.drain()
	s.approveMember("n1", p1.Digest)
	s.untilMember("n1", memberHas(ready, isTrue, v1alpha1.ReasonReady))
	s.until("pool", waits(1))
	if s.lvm.Attempts("n2") != 0 {
		t.Errorf("steps without approval: %v", s.lvm.Log())
	}
	s.unapproved("n1", "n2")
	s.notTold("fits no plan")
}

// Two Members of one name have plans with the same steps, and an approval of the first never serves for the second.
func TestApproval_coversTheUIDOfTheMember(t *testing.T) {
	s := newSuite(t, "n1")
	s.lvm.Dirty("n1", "sdb")
	s.create(newCluster("pool", "n1"))
	s.until("pool", waits(2))
	old := s.mustMember("pool", "n1")
	s.delete(old)
	m := s.untilMember("n1", func(m *v1alpha1.Member) string {
		if m.UID == old.UID || m.Status.Plan == nil {
			return "no plan of a new member"
		}
		return ""
	})
	if m.Status.Plan.Steps[0].Digest != old.Status.Plan.Steps[0].Digest || m.Status.Plan.Digest == old.Status.Plan.Digest {
		t.Errorf("plans %+v and %+v", old.Status.Plan, m.Status.Plan)
	}
	s.approveMember("n1", old.Status.Plan.Digest)
	s.settle("pool")
	if len(s.lvm.Log()) != 0 {
		t.Errorf("an approval of another member served: %v", s.lvm.Log())
	}
}

func TestApproval_ofTheStorageStampsAllMembersBeforeAnyStep(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.create(manual("n1", "n2", "n3"))
	c := s.until("pool", waits(3))
	if len(c.Status.Plan.Steps) != 3 {
		t.Errorf("plan %+v", c.Status.Plan)
	}
	s.lvm.Before(func(string, backendtest.Step) error {
		if a := s.get("pool").Annotations[v1alpha1.AnnotationApprove]; a != "" {
			return errors.New("the approval is still on the Cluster")
		}
		for _, n := range []string{"n1", "n2", "n3"} {
			if m := s.mustMember("pool", n); m.Annotations[v1alpha1.AnnotationApprove] != m.Status.Plan.Digest {
				return fmt.Errorf("the member of %s is not stamped", n)
			}
		}
		return nil
	})
	s.drain()
	s.approve(c.Status.Plan.Digest)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning), has(v1alpha1.ConditionPlanApproved, isTrue, v1alpha1.ReasonApproved))
	s.unapproved("n1", "n2", "n3")
	s.notTold("fits no plan")
	if p := s.get("pool").Status.Plan; p != nil {
		t.Errorf("plan %+v", p)
	}
}

func TestApproval_survivesAControllerThatDiesBetweenTwoStamps(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			for dies := 1; dies <= 4; dies++ {
				s := newSuite(t, "n1", "n2", "n3")
				s.create(manual("n1", "n2", "n3"))
				c := s.until("pool", waits(3))
				s.drain()
				s.approve(c.Status.Plan.Digest)
				writes := 0
				good := s.cached
				s.cached = between(s.client, func(_, _ string, do func() error) error {
					if writes++; writes < dies {
						return do()
					}
					if after && writes == dies {
						_ = do()
					}
					return errors.New("the controller died")
				})
				s.restartController()
				if _, err := s.reconcile("pool"); err == nil {
					t.Fatal("the controller did not die")
				}
				s.cached = good
				s.restartController()
				s.until("pool", hasPhase(v1alpha1.PhaseRunning))
				s.unapproved("n1", "n2", "n3")
				s.notTold("fits no plan")
				s.work.Close()
				s.cleanUp()
			}
		})
	}
}

// Somebody writes to the Member of n2 right when it is to be stamped. Were n1 to run meanwhile, the plan would be another one.
func TestApproval_noStepRunsBeforeAllAreStamped(t *testing.T) {
	for name, refuse := range map[string]error{"conflict": conflict(), "error": errAway} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2", "n3")
			s.create(manual("n1", "n2", "n3"))
			c := s.until("pool", waits(3))
			refused := false
			s.cached = deny(s.client, func(verb, name string) error {
				if verb == "patch" && name == "pool.n2" && !refused {
					refused = true
					return refuse
				}
				return nil
			})
			s.restartController()
			s.drain()
			s.approve(c.Status.Plan.Digest)
			_, _ = s.reconcile("pool")
			if !refused || len(s.lvm.Log()) != 0 {
				t.Fatalf("refused %t, steps %v", refused, s.lvm.Log())
			}
			s.until("pool", hasPhase(v1alpha1.PhaseRunning))
			s.unapproved("n1", "n2", "n3")
			s.notTold("fits no plan")
		})
	}
}

func TestApproval_thatFitsNothingIsToldAndDropped(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.create(manual("n1", "n2"))
	c := s.until("pool", waits(2))
	s.drain()
	s.approve("0123")
	s.approveMember("n2", "4567")
	s.settle("pool")
	s.unapproved("n1", "n2")
	all := s.drain()
	for _, parts := range [][]string{{"ApprovalDropped", "0123", c.Status.Plan.Digest}, {"ApprovalDropped", "4567", "pool.n2", s.mustMember("pool", "n2").Status.Plan.Digest}} {
		n := 0
		for _, e := range all {
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e, p) }) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d events have %q: %q", n, parts, all)
		}
	}
	if len(s.lvm.Log()) != 0 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
	// Without any plan an approval fits nothing either.
	s.approve(c.Status.Plan.Digest)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.drain()
	s.approve(c.Status.Plan.Digest)
	s.settle("pool")
	s.unapproved("n1", "n2")
	s.told("ApprovalDropped", c.Status.Plan.Digest)
}

func TestApproval_isKeptWhileAHostIsSilent(t *testing.T) {
	for _, how := range []backendtest.Answer{backendtest.Silent, backendtest.Early} {
		s := newSuite(t, "n1", "n2")
		s.create(manual("n1", "n2"))
		c := s.until("pool", waits(2))
		s.lvm.Answer("n2", how)
		s.settle("pool")
		s.drain()
		s.approve(c.Status.Plan.Digest)
		s.untilMember("n1", memberHas(ready, isTrue, v1alpha1.ReasonReady))
		if s.lvm.Attempts("n2") != 0 {
			t.Errorf("steps on a silent host: %v", s.lvm.Log())
		}
		s.lvm.Answer("n2", backendtest.Up)
		s.until("pool", hasPhase(v1alpha1.PhaseRunning))
		s.notTold("fits no plan")
		s.unapproved("n1", "n2")
		s.work.Close()
		s.cleanUp()
	}
}

// The digest of the whole was read while all hosts answered. One that restarts meanwhile does not make it void.
func TestApproval_thatFitsNothingIsKeptWhileAHostWithAPlanIsSilent(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.create(manual("n1", "n2"))
	s.until("pool", waits(2))
	s.lvm.Answer("n2", backendtest.Silent)
	s.drain()
	s.approve("0123")
	s.settle("pool")
	if s.get("pool").Annotations[v1alpha1.AnnotationApprove] == "" {
		t.Error("dropped while a host is silent")
	}
	s.notTold("fits no plan")
	s.lvm.Answer("n2", backendtest.Up)
	s.settle("pool")
	s.unapproved("n1", "n2")
	s.told("ApprovalDropped", "0123")
}

func TestApproval_isUsedUp(t *testing.T) {
	s := newSuite(t, "n1")
	s.lvm.Dirty("n1", "sdb")
	s.create(newCluster("pool", "n1"))
	c := s.until("pool", waits(2))
	s.drain()
	s.approve(c.Status.Plan.Digest)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.notTold("fits no plan")
	// The very same device is dirty again: the person has to be asked again.
	s.lvm.Dirty("n1", "sdb")
	s.until("pool", waits(1))
	s.settle("pool")
	if got := s.lvm.Steps("n1"); got != 2 {
		t.Errorf("%d steps: %v", got, s.lvm.Log())
	}
}

func TestApproval_isNotVoidedByAnotherHost(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.create(manual("n1", "n2"))
	s.until("pool", waits(2))
	before := s.mustMember("pool", "n1").Status.Plan.Digest
	s.list("pool", "n1", "n2", "n3")
	s.until("pool", waits(3))
	s.list("pool", "n1")
	s.settle("pool")
	if after := s.mustMember("pool", "n1").Status.Plan.Digest; after != before {
		t.Error("the plan of a host changed with another host")
	}
	s.approveMember("n1", before)
	s.untilMember("n1", memberHas(ready, isTrue, v1alpha1.ReasonReady))
}

func TestApproval_automaticWaitsForWipesOnly(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.lvm.Dirty("n2", "sdb")
	s.create(newCluster("pool", "n1", "n2"))
	c := s.until("pool", waits(2), hasPhase(v1alpha1.PhaseWarning))
	if c.Status.Plan.Steps[0].Action != v1alpha1.ActionWipeDevice || s.lvm.Steps("n1") != 1 || s.lvm.Attempts("n2") != 0 {
		t.Errorf("plan %+v, steps %v", c.Status.Plan, s.lvm.Log())
	}
	if complaint := inState("online", "wait for approval")(s.mustMember("pool", "n2")); complaint != "" {
		t.Error(complaint)
	}
	s.told(v1alpha1.ReasonApprovalRequired, "kubectl annotate")
}

func TestApproval_laterStepsAreApprovedNowAndRunWhenPossible(t *testing.T) {
	s := newSuite(t, "n1")
	s.lvm.Extra("n1", "thin", true)
	s.create(manual("n1"))
	c := s.until("pool", waits(2))
	if steps := c.Status.Plan.Steps; steps[0].Later || !steps[1].Later {
		t.Errorf("plan %+v", steps)
	}
	s.drain()
	s.approve(c.Status.Plan.Digest)
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if p := c.Status.Plan; p == nil || !p.Approved || s.lvm.Steps("n1") != 1 {
			return fmt.Sprintf("plan %+v, steps %v", p, s.lvm.Log())
		}
		return ""
	})
	s.settle("pool")
	if s.lvm.Steps("n1") != 1 {
		t.Fatalf("a step ran that cannot run yet: %v", s.lvm.Log())
	}
	s.lvm.Extra("n1", "thin", false)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if s.lvm.Steps("n1") != 2 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
	s.unapproved("n1")
	s.notTold("fits no plan")
}

func TestApproval_goesOnAfterEveryCrashOfTheHost(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; n <= 3; n++ {
			s := newSuite(t, "n1")
			s.lvm.Dirty("n1", "sdb", "sdc")
			if after {
				s.lvm.CrashAfter("n1", n)
			} else {
				s.lvm.CrashBefore("n1", n)
			}
			s.create(newCluster("pool", "n1"))
			c := s.until("pool", waits(3))
			s.drain()
			s.approve(c.Status.Plan.Digest)
			s.untilMember("n1", inState("offline"))
			s.lvm.Answer("n1", backendtest.Up)
			s.until("pool", hasPhase(v1alpha1.PhaseRunning))
			s.notTold("fits no plan")
			s.unapproved("n1")
			s.work.Close()
			s.cleanUp()
		}
	}
}
