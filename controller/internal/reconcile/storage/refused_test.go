package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var errRefused = errors.New("admission webhook says no")

// refuse lets the API server refuse writes from now on.
func (s *suite) refuse(which func(verb, name string) bool) {
	s.cached = deny(s.client, func(verb, name string) error {
		if which(verb, name) {
			return errRefused
		}
		return nil
	})
	s.restartController()
}

// failing reconciles an Nfs until the check is content; each look may fail with the refusal.
func (s *suite) failing(name string, check func(o *v1alpha1.Nfs) string) {
	s.t.Helper()
	s.await("nfs "+name, func() string {
		if _, err := s.reconcileShare(name); err != nil && !errors.Is(err, errRefused) && !errors.Is(err, errAway) {
			return err.Error()
		}
		o := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if !s.fetch(o) {
			return "no such nfs"
		}
		return check(o)
	})
}

// complains checks the phase, and that the message has a part.
func complains(p v1alpha1.Phase, part string) func(o *v1alpha1.Nfs) string {
	return func(o *v1alpha1.Nfs) string {
		if o.Status.Phase != p || !strings.Contains(o.Status.Message, part) {
			return fmt.Sprintf("phase %s, message %q", o.Status.Phase, o.Status.Message)
		}
		return ""
	}
}

func TestRefused_storageClassIsToldWithItsCause(t *testing.T) {
	s := newSuite(t)
	s.share("files")
	s.refuse(func(verb, _ string) bool { return verb == "apply" })
	s.failing("files", func(o *v1alpha1.Nfs) string {
		if c := complains(v1alpha1.PhaseFailed, errRefused.Error())(o); c != "" {
			return c
		}
		if strings.Count(o.Status.Message, errRefused.Error()) != 1 {
			return "told twice: " + o.Status.Message
		}
		return checkCondition(o.Status.Conditions, v1alpha1.ConditionStorageClassReady, isFalse, v1alpha1.ReasonStorageClassFailed, errRefused.Error())
	})
	s.told("Warning", v1alpha1.ReasonStorageClassFailed, errRefused.Error())
	s.refuse(func(string, string) bool { return false })
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
}

func TestRefused_markOfUseIsTold(t *testing.T) {
	s := newSuite(t)
	s.share("files")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.create(volume("files", v1alpha1.DriverNFS, "", "v1"))
	s.refuse(func(verb, _ string) bool { return verb == "patch" })
	s.failing("files", complains(v1alpha1.PhaseWarning, errRefused.Error()))
	s.refuse(func(string, string) bool { return false })
	o := s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	if o.Status.Message != "" {
		t.Errorf("still told: %s", o.Status.Message)
	}
}

func TestRefused_aLookThatFailsIsTold(t *testing.T) {
	s := newSuite(t)
	s.share("files")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.nfs.FailLooks(errAway)
	s.failing("files", complains(v1alpha1.PhaseWarning, errAway.Error()))
	s.nfs.FailLooks(nil)
	o := s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	if o.Status.Message != "" {
		t.Errorf("still told: %s", o.Status.Message)
	}
}

// A storage that nobody can look at does not say for ever that it is ready. A short time, as while the API server is updated, changes nothing.
func TestRefused_unseenForLongIsNotReady(t *testing.T) {
	s := newSuite(t)
	s.share("files")
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	readyIs := func(status metav1.ConditionStatus, reason string, parts ...string) func(o *v1alpha1.Nfs) string {
		return func(o *v1alpha1.Nfs) string {
			return checkCondition(o.Status.Conditions, ready, status, reason, parts...)
		}
	}
	look := func(check func(o *v1alpha1.Nfs) string) {
		t.Helper()
		if _, err := s.reconcileShare("files"); !errors.Is(err, errAway) {
			t.Fatalf("the look did not fail: %v", err)
		}
		o := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: "files"}}
		if !s.fetch(o) {
			t.Fatal("no nfs")
		}
		if complaint := check(o); complaint != "" {
			t.Fatal(complaint)
		}
	}
	s.nfs.FailLooks(errAway)
	look(readyIs(isTrue, v1alpha1.ReasonReady))
	s.pass(backend.UntilUnseen - time.Second)
	look(readyIs(isTrue, v1alpha1.ReasonReady))
	s.nfs.FailLooks(nil)
	// One look that does not fail begins the time anew.
	s.untilShare("files", sharePhase(v1alpha1.PhaseRunning))
	s.pass(time.Minute)
	s.nfs.FailLooks(errAway)
	look(readyIs(isTrue, v1alpha1.ReasonReady))
	s.pass(backend.UntilUnseen)
	look(readyIs(metav1.ConditionUnknown, v1alpha1.ReasonNotSeen, errAway.Error()))
	s.told("Warning", v1alpha1.ReasonNotSeen, errAway.Error())
	// Another leader knows no more, and does not say that it is ready.
	s.restartController()
	look(readyIs(metav1.ConditionUnknown, v1alpha1.ReasonNotSeen))
	s.nfs.FailLooks(nil)
	s.untilShare("files", readyIs(isTrue, v1alpha1.ReasonReady))
}

// The same for a Cluster, of which the API server refuses a list.
func TestRefused_unseenCluster(t *testing.T) {
	s := newSuite(t, "n1")
	s.cluster("pool", "n1")
	s.lvm.FailLooks(errAway)
	for range 2 {
		if _, err := s.reconcile("pool"); !errors.Is(err, errAway) {
			t.Fatalf("the look did not fail: %v", err)
		}
		s.pass(backend.UntilUnseen)
	}
	if complaint := has(ready, metav1.ConditionUnknown, v1alpha1.ReasonNotSeen, errAway.Error())(s.get("pool")); complaint != "" {
		t.Error(complaint)
	}
	s.lvm.FailLooks(nil)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}
