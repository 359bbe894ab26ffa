package iscsi

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestIscsi_badInput: whatever is wrong with the target, the LUN or a node, is said, and nothing is written to the LUN. Once it is mended, all goes on by itself.
func TestIscsi_badInput(t *testing.T) {
	problem := func(reason, message string) func(*suite) {
		return func(s *suite) {
			s.san.SetInitiator("n2", func(i *sharedlun.Initiator) { i.Problem = sharedlun.NewProblem(reason, "%s", message) })
		}
	}
	name := func(n string) func(*suite) {
		return func(s *suite) { s.san.SetInitiator("n2", func(i *sharedlun.Initiator) { i.Name = n }) }
	}
	well := func(s *suite) { s.san.SetInitiator("n2", func(i *sharedlun.Initiator) { i.Problem = nil }) }
	target := func(iqn string) func(*suite) {
		return func(s *suite) { s.edit(func(i *v1alpha1.Iscsi) { i.Spec.IQN = iqn }) }
	}
	for what, c := range map[string]struct {
		iqn string
		// wrong is how it is before the Iscsi, mend what a person does about it.
		wrong, mend func(*suite)
		// condition that is false, for this reason; says is part of its message, or of that of the Iscsi if no condition is given.
		condition, reason, says string
	}{
		"no portal answers": {
			"", func(s *suite) { s.san.SetDown(true, portal) }, func(s *suite) { s.san.SetDown(false, portal) },
			v1alpha1.ConditionTargetReachable, sharedlun.ReasonPortalUnreachable, portal,
		},
		"the target has another name": {
			iqn + "x", nil, target(iqn), v1alpha1.ConditionTargetReachable, sharedlun.ReasonWrongTarget, iqn + "x",
		},
		"the target shows no LUN": {
			"", func(s *suite) { s.san.DropLUN() }, func(s *suite) { s.lun = s.san.AddLUN("3") }, v1alpha1.ConditionLunReady, v1alpha1.ReasonNoLun, "shows no LUN",
		},
		"the target shows two LUNs": {
			"", func(s *suite) { s.san.AddLUN("2") }, func(s *suite) { s.san.DropLUN(); s.lun = s.san.AddLUN("3") },
			v1alpha1.ConditionLunReady, v1alpha1.ReasonSeveralLuns, "exactly one",
		},
		"a node without the kernel's modules": {"", problem(sharedlun.ReasonNoModules, "iscsi_tcp is missing."), well, "", "", "iscsi_tcp is missing"},
		"a node without the tools":            {"", problem(sharedlun.ReasonNoTools, "Install open-iscsi."), well, "", "", "Install open-iscsi"},
		"a node with the name of another one": {
			"", name("iqn.2026-01.storage.quarry:n1"), name("iqn.2026-01.storage.quarry:n2"), "", "", "iqn.2026-01.storage.quarry:n1",
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			if c.wrong != nil {
				c.wrong(s)
			}
			s.add("san", func(spec *v1alpha1.IscsiSpec) {
				if c.iqn != "" {
					spec.IQN = c.iqn
				}
			}, "n1", "n2")
			s.until("san", func(i *v1alpha1.Iscsi) string {
				if c.condition != "" {
					return hasCondition(c.condition, metav1.ConditionFalse, c.reason, c.says)(i)
				}
				return lacks(i.Status.Message, c.says)
			})
			s.staysUnmade()
			c.mend(s)
			s.until("san", hasPhase(v1alpha1.PhaseRunning))
		})
	}
}

// staysUnmade reconciles for some minutes, in which no group is made, and the Iscsi does not say that it is well.
func (s *suite) staysUnmade() {
	s.t.Helper()
	for range 5 {
		s.leap(time.Minute)
		_ = s.reconcile("san") // What is wrong may be an error.
	}
	if s.san.Group(s.lun) != nil {
		s.t.Error("a group was made")
	}
	if i := s.get("san"); i.Status.Phase == v1alpha1.PhaseRunning || i.Status.Message == "" {
		s.t.Errorf("phase %s: %q", i.Status.Phase, i.Status.Message)
	}
}

// TestIscsi_otherLun: under the number of the recorded LUN there is one of another size, or of another serial number. Nothing is done to it.
func TestIscsi_otherLun(t *testing.T) {
	for what, change := range map[string]func(*iscsitest.LUN){
		"it is smaller":             func(l *iscsitest.LUN) { l.Identity.SizeBytes /= 2 },
		"it has another number":     func(l *iscsitest.LUN) { l.Identity.Serial = "serial-9" },
		"it has another name, WWID": func(l *iscsitest.LUN) { l.Identity.WWID = "naa.6001405000000009" },
	} {
		t.Run(what, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			s.add("san", nil, "n1", "n2")
			s.until("san", hasPhase(v1alpha1.PhaseRunning))
			s.volume("n2")
			was := s.lun.Identity
			s.san.Edit(s.lun, change)
			s.until("san", hasCondition(v1alpha1.ConditionLunReady, metav1.ConditionFalse, v1alpha1.ReasonOtherLun))
			s.san.Calls()
			for range 5 {
				s.leap(time.Minute)
				_ = s.reconcile("san") // What is wrong may be an error.
			}
			for _, call := range s.san.Calls() {
				if verb, _, _ := strings.Cut(call, " "); verb == "create" || verb == "change" || verb == "register" || verb == "remove" {
					t.Errorf("on another LUN: %s", call)
				}
			}
			s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.Identity = was })
			s.until("san", hasPhase(v1alpha1.PhaseRunning))
		})
	}
}

// TestIscsi_swappedLun: the paths of one node lead to another LUN, of which its kernel knows nothing. The agent cuts what writes there, the condition names the node,
// and what nobody has open is made anew once the recorded LUN is back.
func TestIscsi_swappedLun(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.san.Swap("n2", true)
	s.until("san", hasCondition(v1alpha1.ConditionLunReady, metav1.ConditionFalse, v1alpha1.ReasonOtherLun, "Node n2", "return errors"))
	if !s.san.Cut("n2", "uuid-v1") {
		t.Error("the device of the volume writes on")
	}
	s.san.Swap("n2", false)
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.until("san", func(*v1alpha1.Iscsi) string {
		if s.san.Cut("n2", "uuid-v1") || !slices.Contains(s.san.Mapped("uuid-v1"), "n2") {
			return "the device returns errors"
		}
		return ""
	})
}
