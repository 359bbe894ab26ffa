package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// announcedAnywhere is announced for the Cluster that the step is of.
func (s *suite) announcedAnywhere(host string, step backendtest.Step) error {
	var all v1alpha1.MemberList
	if err := s.client.List(context.Background(), &all); err != nil {
		return err
	}
	for _, m := range all.Items {
		if m.Spec.Of.UID == step.Owner && string(m.Spec.Node) == host && m.DeletionTimestamp.IsZero() {
			return s.announcedBy(&m, step)
		}
	}
	return nil
}

// announced checks, right before a step of a new host, that what it makes is on record.
func (s *suite) announced(host string, step backendtest.Step) error {
	return s.announcedBy(s.mustMember("pool", host), step)
}

func (s *suite) announcedBy(m *v1alpha1.Member, step backendtest.Step) error {
	if step.Does != v1alpha1.ActionEnsureVolumeGroup && step.Does != v1alpha1.ActionWipeDevice {
		return nil
	}
	if g := m.Spec.Group; g == nil || g.UUID != "" || len(g.Forming) != 1 || !strings.Contains(g.Forming[0], step.On) {
		return fmt.Errorf("the record is %+v", g)
	}
	return nil
}

func TestRecord_isWrittenBeforeAnyStep(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.lvm.Before(s.announced)
	c := s.cluster("pool", "n1", "n2")
	for _, n := range []string{"n1", "n2"} {
		g := s.mustMember("pool", n).Spec.Group
		if g.UUID != s.lvm.Group(c.UID, n).UUID || g.Name != "group" || len(g.Forming) != 0 {
			t.Errorf("record of %s: %+v", n, g)
		}
	}
}

func TestRecord_thatCannotBeWrittenMeansNoStep(t *testing.T) {
	for _, verdict := range []error{errors.New("a webhook says no"), conflict()} {
		s := newSuite(t, "n1", "n2")
		refuse := true
		s.cached = deny(s.client, func(verb, name string) error {
			if refuse && verb == "patch" && name == "pool.n1" {
				return verdict
			}
			return nil
		})
		s.restartController()
		s.create(newCluster("pool", "n1", "n2"))
		s.await("n2", func() string {
			_, _ = s.reconcile("pool")
			if m := s.member("pool", "n2"); m == nil || s.class("pool") == nil {
				return "n2 is held up by n1"
			}
			return memberHas(ready, isTrue, v1alpha1.ReasonReady)(s.mustMember("pool", "n2"))
		})
		if s.lvm.Attempts("n1") != 0 {
			t.Errorf("%v: steps without a record: %v", verdict, s.lvm.Log())
		}
		if !errors.Is(verdict, errConflict) {
			s.until2(func() string {
				return inState("online", "webhook")(s.mustMember("pool", "n1")) + has(v1alpha1.ConditionDisksReady, isFalse, v1alpha1.ReasonStepFailed, "n1: ")(s.get("pool"))
			})
		}
		refuse = false
		s.until("pool", hasPhase(v1alpha1.PhaseRunning))
		s.work.Close()
		s.cleanUp()
	}
}

// until2 reconciles the Cluster pool, errors allowed, until the check is content.
func (s *suite) until2(check func() string) {
	s.t.Helper()
	s.await("cluster pool", func() string {
		_, err := s.reconcile("pool")
		complaint := check()
		if complaint != "" && err != nil {
			complaint += ": " + err.Error()
		}
		return complaint
	})
}

// A crash after the group was made, and before its UUID was recorded: exactly what was announced is taken.
func TestRecord_survivesACrashAfterTheGroupWasMade(t *testing.T) {
	s := newSuite(t, "n1")
	s.lvm.CrashAfter("n1", 1)
	s.create(newCluster("pool", "n1"))
	m := s.untilMember("n1", inState("offline"))
	if m.Spec.Group == nil || m.Spec.Group.UUID != "" || len(m.Spec.Group.Forming) != 1 {
		t.Fatalf("record %+v", m.Spec.Group)
	}
	s.restartController()
	s.lvm.Answer("n1", backendtest.Up)
	c := s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if g := s.mustMember("pool", "n1").Spec.Group; g.UUID != s.lvm.Group(c.UID, "n1").UUID || len(g.Forming) != 0 || s.lvm.Steps("n1") != 1 {
		t.Errorf("record %+v, steps %v", g, s.lvm.Log())
	}
}

// The record is set once. A host on which another group is seen gets no step, whatever the backend wants.
func TestRecord_thatDiffersMeansNoStep(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.lvm.Lose(c.UID, "n2")
	s.lvm.Make(c.UID, "n2", groupOf("another"))
	s.lvm.Extra("n2", "thin", false)
	s.untilMember("n2", memberHas(ready, isFalse, v1alpha1.ReasonVolumeGroupConflict))
	s.lvm.Obstinate()
	s.until2(func() string {
		return memberHas(ready, isFalse, v1alpha1.ReasonStepFailed, "set once")(s.mustMember("pool", "n2"))
	})
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
	if complaint := memberHas(ready, isTrue, v1alpha1.ReasonReady)(s.mustMember("pool", "n1")); complaint != "" {
		t.Error(complaint)
	}
}

func TestRecord_outranksWhatIsSeen(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	g := s.lvm.Lose(c.UID, "n2")
	m := s.untilMember("n2", memberHas(ready, isFalse, v1alpha1.ReasonVolumeGroupLost))
	if m.Spec.Group.UUID != g.UUID {
		t.Errorf("record %+v", m.Spec.Group)
	}
	s.settle("pool")
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("a group was made in place of the recorded one: %v", s.lvm.Log())
	}
	// Status can be lost.
	m.Status = v1alpha1.MemberStatus{}
	if err := s.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.restartController()
	s.settle("pool")
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("a group was made in place of the recorded one: %v", s.lvm.Log())
	}
	s.lvm.Make(c.UID, "n2", g)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

// A storage without Members, as it was made by the version before: groups and volumes are there already.
func TestRecord_ofGroupsThatWereThereBefore(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := newCluster("pool", "n1", "n2")
	s.create(c)
	for _, n := range []string{"n1", "n2"} {
		s.lvm.Make(c.UID, n, groupOf("old-"+n, "v-"+n))
		s.create(volume("pool", v1alpha1.DriverLVM, n, "v-"+n))
	}
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	for _, n := range []string{"n1", "n2"} {
		if g := s.mustMember("pool", n).Spec.Group; g == nil || g.UUID != "old-"+n {
			t.Errorf("record of %s: %+v", n, g)
		}
	}
	if len(s.lvm.Log()) != 0 {
		t.Errorf("steps: %v", s.lvm.Log())
	}
	if c := s.get("pool"); !slices.Contains(c.Finalizers, v1alpha1.FinalizerInUse) {
		t.Error("volumes exist, and the finalizer is not there")
	}
}

func TestDeparture_isForMembersWithoutARecordToo(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.lvm.Problem("n2", backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonNoCleanDevice, Message: "has no clean device"})
	s.cluster2("pool", "n1", "n2")
	s.list("pool", "n1")
	s.settle("pool")
	s.pass(delay)
	s.untilNoMember("n2")
}

// cluster2 creates a Cluster and reconciles it until its class exists.
func (s *suite) cluster2(name string, hosts ...string) {
	s.t.Helper()
	s.create(newCluster(name, hosts...))
	s.until(name, func(*v1alpha1.Cluster) string {
		if s.class(name) == nil {
			return "no class"
		}
		return ""
	})
}
