package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
