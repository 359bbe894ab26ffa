package iscsi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

func TestIscsi_dataOnTheLun(t *testing.T) {
	s := newSuite(t, "n1")
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.Content = "The device carries an ext4 filesystem." })
	s.add("san", nil, "n1")
	s.until("san", hasCondition(v1alpha1.ConditionLunReady, metav1.ConditionFalse, v1alpha1.ReasonLunNotEmpty, "ext4", s.lun.Identity.WWID))
	s.edit(func(i *v1alpha1.Iscsi) { i.Spec.Wipe = s.lun.Identity.WWID })
	i := s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || len(i.Status.Plan.Steps) != 1 {
			return "no plan: " + i.Status.Message
		}
		return says(i, "loses for good what is on LUN "+s.lun.Identity.WWID, "ext4")
	})
	for range 3 {
		s.leap(time.Minute)
		if err := s.reconcile("san"); err != nil {
			t.Fatal(err)
		}
	}
	if s.san.Group(s.lun) != nil {
		t.Fatal("the LUN was taken without approval")
	}
	digest := i.Status.Plan.Digest
	s.edit(func(i *v1alpha1.Iscsi) { i.Annotations = map[string]string{v1alpha1.AnnotationApprove: digest} })
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.told(v1alpha1.ReasonLunWiped, s.lun.Identity.WWID, "ext4")
}

// TestIscsi_fence: a node falls silent while a volume is being taken from it. A person says that it is off, and the volume goes on elsewhere. The node
// may not write before it was booted, and has another key then.
func TestIscsi_fence(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.leave()
	for range 5 {
		s.leap(time.Minute)
		if err := s.reconcile("san"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.san.Keys(s.lun)) != 2 {
		t.Fatal("the node was fenced without a person's word")
	}
	before := s.member("n2").Spec.Reservation.Key
	s.taint(true)
	s.until("san", func(*v1alpha1.Iscsi) string {
		if v := s.san.Group(s.lun).Volume("v1"); v.HeldBy != "" {
			return "v1 is held by " + v.HeldBy
		}
		return ""
	})
	if r := s.member("n2").Spec.Reservation; !r.Fenced || s.san.Keys(s.lun)["n2"] != 0 {
		t.Errorf("%+v, keys %v", r, s.san.Keys(s.lun))
	}
	s.told(v1alpha1.ReasonFenced, "Node n2 is fenced")
	s.until("san", func(*v1alpha1.Iscsi) string {
		return lacks(s.member("n2").Status.Message, "is fenced, so that it cannot write")
	})
	// It comes back without a boot: what it has in memory could still be written.
	s.san.SetAgent("n2", decide.AgentUp)
	s.until("san", func(*v1alpha1.Iscsi) string { return lacks(s.member("n2").Status.Message, "not booted since") })
	if s.san.Keys(s.lun)["n2"] != 0 {
		t.Error("a fenced node has a key")
	}
	s.san.Boot("n2")
	s.taint(false)
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	if r := s.member("n2").Spec.Reservation; r.Fenced || r.Key == before || s.san.Keys(s.lun)["n2"] == 0 {
		t.Errorf("%+v, keys %v", r, s.san.Keys(s.lun))
	}
}

// TestIscsi_boot: the key of the boot before is replaced, and volumes that are the node's get their devices.
func TestIscsi_boot(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	before := s.san.Keys(s.lun)["n2"]
	s.san.Boot("n2")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if on := s.san.Mapped("uuid-v1"); !slices.Equal(on, []string{"n2"}) {
			return fmt.Sprintf("v1 is mapped on %v; %s", on, i.Status.Message)
		}
		return ""
	})
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	if now := s.san.Keys(s.lun)["n2"]; now == 0 || now == before || len(s.member("n2").Spec.Reservation.Previous) > 0 {
		t.Errorf("key %x, before %x, %+v", now, before, s.member("n2").Spec.Reservation)
	}
}

// TestIscsi_neverBack: a node that was fenced never comes back. By a person's word it is no reader any more.
func TestIscsi_neverBack(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.leave()
	s.taint(true)
	i := s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || len(i.Status.Plan.Steps) == 0 {
			return "no plan: " + i.Status.Message
		}
		if c := lacks(i.Status.Plan.Steps[0].Reason, "Node n2 was fenced, and may still read these volumes"); c != "" {
			return c
		}
		return says(i, "vouches that node n2 is off, or was booted since")
	})
	if v := s.san.Group(s.lun).Volume("v1"); len(v.Readers) != 1 || v.HeldBy != "" || !slices.Equal(i.Status.Plan.Steps[0].Volumes, []string{"v1"}) {
		t.Fatalf("%+v, %+v", v, i.Status.Plan)
	}
	s.edit(func(o *v1alpha1.Iscsi) {
		o.Annotations = map[string]string{v1alpha1.AnnotationApprove: i.Status.Plan.Digest}
	})
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if v := s.san.Group(s.lun).Volume("v1"); len(v.Readers) > 0 {
			return fmt.Sprintf("%+v; %s", v, i.Status.Message)
		}
		return ""
	})
	s.told(v1alpha1.ReasonReadersForgotten, "Node n2", "v1")
}

// TestIscsi_keysOfNobody: as long as a key is on the LUN that no Member has no fence counts. By approval it is taken off.
func TestIscsi_keysOfNobody(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.san.KeepKey(s.lun, "stranger", 0x99)
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.leave()
	s.taint(true)
	i := s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || len(i.Status.Plan.Steps) == 0 {
			return "no plan: " + i.Status.Message
		}
		if c := lacks(i.Status.Plan.Steps[0].Reason, "no fence counts and no node's word: 0000000000000099"); c != "" {
			return c
		}
		return says(i, "nobody but the nodes of this Iscsi uses the LUN")
	})
	for range 5 {
		s.leap(time.Minute)
		_ = s.reconcile("san")
	}
	if v := s.san.Group(s.lun).Volume("v1"); v.HeldBy != "n2" || len(s.san.Keys(s.lun)) != 2 {
		t.Fatalf("%+v, %v", v, s.san.Keys(s.lun))
	}
	s.edit(func(o *v1alpha1.Iscsi) {
		o.Annotations = map[string]string{v1alpha1.AnnotationApprove: i.Status.Plan.Digest}
	})
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if v := s.san.Group(s.lun).Volume("v1"); v.HeldBy != "" || s.san.Keys(s.lun)["stranger"] != 0 {
			return fmt.Sprintf("%+v; %s", v, i.Status.Message)
		}
		return ""
	})
	s.told(v1alpha1.ReasonKeysPreempted, "0000000000000099")
}

func TestIscsi_withoutReservations(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.NoReservations = true })
	s.add("san", nil, "n1", "n2")
	s.until("san", hasCondition(v1alpha1.ConditionFencingPossible, metav1.ConditionFalse, v1alpha1.ReasonNoReservations, v1alpha1.TaintOutOfService+" and a person approved"))
	s.until("san", hasPhase(v1alpha1.PhaseWarning))
	s.volume("n2")
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.leave()
	s.taint(true)
	i := s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil {
			return "no plan: " + i.Status.Message
		}
		return says(i, "vouches that node n2 is off")
	})
	if s.member("n2").Spec.Reservation.Fenced {
		t.Fatal("believed without approval")
	}
	digest := i.Status.Plan.Digest
	s.edit(func(i *v1alpha1.Iscsi) { i.Annotations = map[string]string{v1alpha1.AnnotationApprove: digest} })
	s.until("san", func(*v1alpha1.Iscsi) string {
		if v := s.san.Group(s.lun).Volume("v1"); v.HeldBy != "" {
			return "v1 is held by " + v.HeldBy
		}
		return ""
	})
}

func TestIscsi_chap(t *testing.T) {
	s := newSuite(t, "n1")
	s.san.SetChap(&sharedlun.Chap{Username: "u", Password: "first-password"})
	s.add("san", func(spec *v1alpha1.IscsiSpec) { spec.Chap = true }, "n1")
	s.until("san", func(i *v1alpha1.Iscsi) string { return lacks(i.Status.Message, "there is no Secret san-iscsi-secret") })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "san-iscsi-secret"}}
	secret.StringData = map[string]string{"username": "u", "password": "wrong-password"}
	s.create(secret)
	s.until("san", hasCondition(v1alpha1.ConditionTargetReachable, metav1.ConditionFalse, sharedlun.ReasonWrongChap))
	s.until("san", func(i *v1alpha1.Iscsi) string {
		return lacks(i.Status.Message, "correct the Secret san-iscsi-secret in namespace")
	})
	s.password("first-password")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.san.SetChap(&sharedlun.Chap{Username: "u", Password: "second-password"})
	s.password("second-password")
	s.san.Calls()
	var calls []string
	s.until("san", func(*v1alpha1.Iscsi) string {
		if calls = append(calls, s.san.Calls()...); !slices.Contains(calls, "login n1") {
			return "the node did not log in again"
		}
		return ""
	})
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	i, m := s.get("san"), s.member("n1")
	if text := fmt.Sprintf("%+v %+v %+v", i.Status, m.Annotations, m.Status); strings.Contains(text, "-password") {
		t.Error("a password is shown")
	}
}

func TestIscsi_initiatorLeavesWithVolumes(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", s.hasLabel("n2", "true"))
	s.volume("n2")
	s.attach("n2")
	s.edit(func(i *v1alpha1.Iscsi) { i.Spec.Initiators = []v1alpha1.HostName{"n1"} })
	s.until("san", func(*v1alpha1.Iscsi) string { return lacks(s.member("n2").Status.Message, "pv-v1") })
	s.until("san", s.hasLabel("n2", ""))
	if m := s.member("n2"); m.DeletionTimestamp != nil || s.san.Sessions("n2") != 1 || s.san.Keys(s.lun)["n2"] == 0 {
		t.Fatalf("%+v", m.Status)
	}
	s.delete(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attach-v1"}})
	s.leave()
	s.san.DropMapping("n2", "uuid-v1")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if s.san.Sessions("n2") != 0 || len(s.san.Keys(s.lun)) != 1 {
			return "n2 is still there: " + i.Status.Message
		}
		return ""
	})
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.HostCount != 1 {
			return fmt.Sprint(i.Status.HostCount)
		}
		return ""
	})
	if v := s.san.Group(s.lun).Volume("v1"); v == nil || v.HeldBy != "" {
		t.Errorf("%+v", v)
	}
}

func TestIscsi_pathsAndTarget(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	two := func(spec *v1alpha1.IscsiSpec) {
		spec.Targets, spec.Multipath = []v1alpha1.PortalAddress{"10.0.0.1", "10.0.0.2"}, true
	}
	s.add("san", two, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.san.SetDown(true, "10.0.0.2:3260")
	s.until("san", hasCondition(v1alpha1.ConditionPathsHealthy, metav1.ConditionFalse, v1alpha1.ReasonPathDown, "n1: portal 10.0.0.2:3260", "n2: portal"))
	s.until("san", hasPhase(v1alpha1.PhaseWarning))
	if c := hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)(s.get("san")); c != "" {
		t.Error(c)
	}
	s.san.SetDown(true, portal)
	s.until("san", hasCondition(v1alpha1.ConditionTargetReachable, metav1.ConditionFalse, sharedlun.ReasonTargetUnreachable, "n1: "))
	s.until("san", hasPhase(v1alpha1.PhaseWarning))
	if c := hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, sharedlun.ReasonTargetUnreachable)(s.get("san")); c != "" {
		t.Error(c)
	}
	s.san.SetDown(false, portal, "10.0.0.2:3260")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
}

// says checks that the first step that waits, and the condition before it has the command, say what whoever approves says by that.
func says(i *v1alpha1.Iscsi, parts ...string) string {
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionPlanApproved)
	if c == nil || c.Status != metav1.ConditionFalse {
		return fmt.Sprintf("%+v", c)
	}
	before, _, _ := strings.Cut(c.Message, "To approve: kubectl annotate")
	for _, part := range parts {
		for _, text := range []string{before, i.Status.Plan.Steps[0].Consent} {
			if missing := lacks(text, part); missing != "" {
				return missing
			}
		}
	}
	return ""
}

// leave marks the volume v1 as leaving, as a CSI controller does that dies then.
func (s *suite) leave() {
	s.t.Helper()
	v := *s.san.Group(s.lun).Volume("v1")
	v.Leaving = true
	s.san.SetVolume(s.lun, v)
}

// taint puts the taint of a node that is off on n2, or takes it away.
func (s *suite) taint(on bool) {
	s.t.Helper()
	n := &corev1.Node{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: "n2"}, n); err != nil {
		s.t.Fatal(err)
	}
	n.Spec.Taints = nil
	if on {
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	}
	if err := s.client.Update(context.Background(), n); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) password(p string) {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: "san-iscsi-secret"}, secret); err != nil {
		s.t.Fatal(err)
	}
	secret.Data["password"] = []byte(p)
	if err := s.client.Update(context.Background(), secret); err != nil {
		s.t.Fatal(err)
	}
}
