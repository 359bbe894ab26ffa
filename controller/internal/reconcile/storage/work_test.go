package storage

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestWork_oneFailingHostDelaysNoOther(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	for n := 1; n <= 3; n++ {
		s.lvm.FailAt("n2", n, backendtest.ErrBroken)
	}
	s.create(newCluster("pool", "n1", "n2", "n3"))
	c := s.until("pool", hasPhase(v1alpha1.PhaseWarning), has(v1alpha1.ConditionDisksReady, isFalse, v1alpha1.ReasonStepFailed, "n2: the disk is broken"))
	if s.class("pool") == nil || len(c.Status.Problems) != 1 || c.Status.Problems[0].Node != "n2" {
		t.Errorf("problems %+v", c.Status.Problems)
	}
	for _, n := range []string{"n1", "n3"} {
		if complaint := memberHas(ready, isTrue, v1alpha1.ReasonReady)(s.mustMember("pool", n)); complaint != "" {
			t.Error(complaint)
		}
	}
	if complaint := memberHas(ready, isFalse, v1alpha1.ReasonStepFailed, "broken")(s.mustMember("pool", "n2")); complaint != "" {
		t.Error(complaint)
	}
	if r := s.once("pool"); r.RequeueAfter > 10*time.Second {
		t.Errorf("tried again in %s", r.RequeueAfter)
	}
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if got := s.lvm.Attempts("n2"); got != 4 {
		t.Errorf("%d attempts", got)
	}
}

func TestWork_passingErrorIsNotShownTheFirstTime(t *testing.T) {
	s := newSuite(t, "n1")
	passing := &backend.StepError{Reason: v1alpha1.ReasonAgentUnreachable, Passing: true, Err: backendtest.ErrBroken}
	s.lvm.FailAt("n1", 1, passing)
	s.create(newCluster("pool", "n1"))
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if s.lvm.Attempts("n1") < 1 {
			return "not tried"
		}
		if strings.Contains(c.Status.Message, "broken") {
			t.Errorf("shown at once: %s", c.Status.Message)
		}
		return ""
	})
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

// A job that takes longer than the engine is patient goes on, and the engine is told when it ends.
func TestWork_slowHostHoldsUpNobodyAndReportsLate(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.impatient()
	release := s.lvm.Block("n2")
	s.create(newCluster("pool", "n1", "n2"))
	s.untilMember("n1", inState("online"))
	s.untilMember("n1", memberHas(ready, isTrue, v1alpha1.ReasonReady))
	if complaint := inState("online", "being prepared")(s.mustMember("pool", "n2")); complaint != "" {
		t.Error(complaint)
	}
	// A pass that waited again would hold the test up until it fails.
	s.work.Patience = time.Hour
	s.once("pool")
	if s.lvm.Attempts("n2") != 1 {
		t.Errorf("%d jobs on one host at the same time", s.lvm.Attempts("n2"))
	}
	select {
	case o := <-s.work.Late():
		t.Fatalf("told of %s while the job runs", o.Name)
	default:
	}
	release()
	select {
	case o := <-s.work.Late():
		if o.Name != "pool" || o.Kind != "Cluster" {
			t.Errorf("told of %+v", o)
		}
	case <-time.After(5 * time.Second):
		t.Error("nobody tells that the job has ended")
	}
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestWork_failureOfASlowHostIsShown(t *testing.T) {
	s := newSuite(t, "n1")
	s.impatient()
	s.lvm.FailAt("n1", 1, backendtest.ErrBroken)
	release := s.lvm.Block("n1")
	s.create(newCluster("pool", "n1"))
	s.untilMember("n1", inState("online", "being prepared"))
	release()
	<-s.work.Late()
	s.untilMember("n1", memberHas(ready, isFalse, v1alpha1.ReasonStepFailed, "broken"))
}

// What a host holds may change at any moment while it is worked on: its Member is neither condemned nor given free.
func TestWork_deletionWaitsForARunningJob(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.impatient()
	release := s.lvm.Block("n2")
	s.create(newCluster("pool", "n1", "n2"))
	s.untilMember("n2", inState("online", "being prepared"))
	s.list("pool", "n1")
	s.settle("pool")
	s.pass(10 * delay)
	for range 3 {
		s.once("pool")
	}
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() {
		t.Error("condemned while it is worked on")
	}
	s.delete(s.mustMember("pool", "n2"))
	for range 3 {
		s.once("pool")
	}
	s.mustMember("pool", "n2")
	s.driver.install(false)
	s.delete(s.get("pool"))
	for range 3 {
		s.once("pool")
	}
	if c := s.get("pool"); len(c.Finalizers) == 0 {
		t.Error("given free while a group is being made")
	}
	release()
	<-s.work.Late()
	s.untilGone("pool")
	if !s.lvm.Empty("n1") || !s.lvm.Empty("n2") {
		t.Errorf("something is left: %v", s.lvm.Log())
	}
}

func TestWork_hostDiesAtEveryStep(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			s := newSuite(t, "n1")
			s.lvm.Before(s.announcedUnlessDeleting)
			s.lvm.Extra("n1", "thin", false)
			s.driver.install(false)
			if after {
				s.lvm.CrashAfter("n1", n)
			} else {
				s.lvm.CrashBefore("n1", n)
			}
			heal := func() {
				if m := s.member("pool", "n1"); m != nil && m.Status.State == "offline" || m != nil && strings.Contains(m.Status.Message, "agent") {
					s.lvm.Answer("n1", backendtest.Up)
				}
			}
			s.create(newCluster("pool", "n1"))
			s.driver.install(true)
			s.until("pool", func(c *v1alpha1.Cluster) string { heal(); return hasPhase(v1alpha1.PhaseRunning)(c) })
			s.driver.install(false)
			s.delete(s.get("pool"))
			s.await("deletion", func() string {
				if _, err := s.reconcile("pool"); err != nil {
					return err.Error()
				}
				heal()
				c := &v1alpha1.Cluster{}
				c.Name = "pool"
				if s.fetch(c) {
					return "still there: " + c.Status.Message
				}
				return ""
			})
			if !s.lvm.Empty("n1") {
				t.Errorf("crash at %d, after %t: something is left", n, after)
			}
			s.work.Close()
			s.cleanUp()
		}
	}
}

func (s *suite) announcedUnlessDeleting(host string, step backendtest.Step) error {
	if !s.get("pool").DeletionTimestamp.IsZero() {
		return nil
	}
	return s.announced(host, step)
}

func TestWork_nodeThatCannotBeLabelledDelaysNoOther(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	refuse := true
	s.cached = deny(s.client, func(verb, name string) error {
		if refuse && verb == "patch" && name == "n1" {
			return backendtest.ErrBroken
		}
		return nil
	})
	s.restartController()
	s.create(newCluster("pool", "n1", "n2"))
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if s.node("n2").Labels[v1alpha1.LabelStorageType] != "lvm" {
		t.Error("n2 has no label")
	}
	if r := s.once("pool"); r.RequeueAfter > 10*time.Second {
		t.Errorf("tried again in %s", r.RequeueAfter)
	}
	refuse = false
	if s.once("pool"); s.node("n1").Labels[v1alpha1.LabelStorageType] != "lvm" {
		t.Error("n1 has no label")
	}
}

// A list of steps is begun, and then somebody wants it to stop: no further step of it is taken, whatever the engine knew when it began.
func TestWork_listOfStepsStopsWhenItMayNotGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		stop, resume func(s *suite)
	}{
		"maintenance in the spec": {
			func(s *suite) { s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = hostNames("n1") }) },
			func(s *suite) { s.edit("pool", func(c *v1alpha1.Cluster) { c.Spec.Maintenance = nil }) },
		},
		"maintenance of the Member": {
			func(s *suite) { s.editMember("n1", func(m *v1alpha1.Member) { m.Spec.Maintenance = true }) },
			func(s *suite) { s.editMember("n1", func(m *v1alpha1.Member) { m.Spec.Maintenance = false }) },
		},
		"maintenance of the StorageNode": {
			func(s *suite) {
				n := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
				n.Spec.Maintenance = true
				s.create(n)
			},
			func(s *suite) { s.delete(&v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) },
		},
		"it is not listed": {
			func(s *suite) { s.list("pool", "n2") }, func(s *suite) { s.list("pool", "n1", "n2") },
		},
		"the Member is deleted": {
			func(s *suite) { s.delete(s.mustMember("pool", "n1")) }, nil,
		},
		"the API server does not answer": {
			func(s *suite) { s.deaf.Store(true) }, func(s *suite) { s.deaf.Store(false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			s.live = failReads(s.direct, func() error {
				if s.deaf.Load() {
					return errAway
				}
				return nil
			})
			s.restartController()
			s.lvm.Extra("n1", "thin", false)
			stopped := false
			s.lvm.Before(func(host string, _ backendtest.Step) error {
				if host == "n1" && !stopped {
					stopped = true
					c.stop(s)
				}
				return nil
			})
			s.create(newCluster("pool", "n1", "n2"))
			s.await("the first step", func() string {
				// Its writes meet those of the test.
				_, _ = s.reconcile("pool")
				if s.lvm.Steps("n1") == 0 {
					return "no step yet"
				}
				return ""
			})
			if got := s.lvm.Steps("n1"); got != 1 {
				t.Fatalf("%d steps: %v", got, s.lvm.Log())
			}
			if c.resume == nil {
				return
			}
			c.resume(s)
			s.until("pool", hasPhase(v1alpha1.PhaseRunning))
			if got := s.lvm.Steps("n1"); got != 2 {
				t.Errorf("%d steps: %v", got, s.lvm.Log())
			}
		})
	}
}
