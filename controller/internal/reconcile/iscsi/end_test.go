package iscsi

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// release has a person give the Iscsi san up, whatever is on its LUN.
func (s *suite) release() {
	s.t.Helper()
	s.deleteIscsi("san")
	s.edit(func(i *v1alpha1.Iscsi) {
		i.Annotations = map[string]string{v1alpha1.AnnotationRemove: string(i.UID)}
	})
}

// noKeys checks that others can use the LUN.
func (s *suite) noKeys() {
	s.t.Helper()
	if keys := s.san.Keys(s.lun); len(keys) != 0 {
		s.t.Errorf("keys %v are left on the LUN", keys)
	}
}

// TestIscsi_deleteWithoutANode: a node is gone for good. Its key goes with the Iscsi, without a person's word: nothing of ours is on the LUN any more.
func TestIscsi_deleteWithoutANode(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add("san", nil, "n1", "n2", "n3")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}})
	s.san.SetAgent("n3", decide.AgentMissing)
	s.deleteIscsi("san")
	s.untilGone("san")
	s.noKeys()
	s.told(v1alpha1.ReasonFenced, "The key of node n3 is off the LUN")
	if s.san.Group(s.lun) != nil || s.san.Sessions("n1")+s.san.Sessions("n2") != 0 {
		t.Errorf("left: %v", s.san.Group(s.lun))
	}
}

// TestIscsi_turnOfAGoneProcess: the CSI driver goes with the last volume, and may have had the turn then. Nobody waits for it.
func TestIscsi_turnOfAGoneProcess(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	i := s.until("san", hasPhase(v1alpha1.PhaseRunning))
	leases := san.KubernetesLeases{Client: s.client, Namespace: namespace, Now: s.now}
	r, version, err := leases.Load(t.Context(), string(i.UID))
	if err != nil {
		t.Fatal(err)
	}
	r.Taken = san.ProcessName(san.RoleCSI, "quarry-csi-iscsi-gone")
	if _, err := leases.Store(t.Context(), string(i.UID), r, version); err != nil {
		t.Fatal(err)
	}
	begin := s.now()
	s.deleteIscsi("san")
	s.untilGone("san")
	if took := s.now().Sub(begin); took > sharedlun.Patience/2 {
		t.Errorf("gone after %v", took)
	}
	s.noKeys()
}

// TestIscsi_released: a person gives the LUN up as it is. Its keys go all the same, so that others can use it.
func TestIscsi_released(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n2")
	s.deleteVolume("pv-v1")
	s.san.Boot("n2")
	s.release()
	s.untilGone("san")
	s.noKeys()
	if g := s.san.Group(s.lun); g == nil || g.Volume("v1") == nil {
		t.Errorf("the LUN was to stay as it is: %+v", g)
	}
}

// TestIscsi_releasedWithoutANode: of a node that Kubernetes does not know any more a person has to vouch that it is off.
func TestIscsi_releasedWithoutANode(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	s.san.SetAgent("n2", decide.AgentMissing)
	s.release()
	i := s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || len(i.Status.Plan.Steps) == 0 {
			return "no plan: " + i.Status.Message
		}
		return says(i, "vouches that node n2 is off")
	})
	for range 5 {
		s.leap(time.Minute)
		if err := s.reconcile("san"); err != nil {
			t.Fatal(err)
		}
	}
	if keys := s.san.Keys(s.lun); len(keys) != 2 {
		t.Fatalf("keys %v: a node was fenced without a person's word, or the last one left that could do it", keys)
	}
	s.edit(func(o *v1alpha1.Iscsi) { o.Annotations[v1alpha1.AnnotationApprove] = i.Status.Plan.Digest })
	s.untilGone("san")
	s.noKeys()
}

// TestIscsi_releasedWithoutALUN: the LUN is gone. Nobody waits for keys on it.
func TestIscsi_releasedWithoutALUN(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.san.DropLUN()
	s.release()
	s.untilGone("san")
}

// TestIscsi_manual: where every plan is approved, a node that is booted gets back what it had without a person.
func TestIscsi_manual(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", func(spec *v1alpha1.IscsiSpec) { spec.Approval = v1alpha1.ApprovalManual }, "n1", "n2")
	approved := 0
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if p := i.Status.Plan; p != nil && !p.Approved {
			approved++
			s.edit(func(o *v1alpha1.Iscsi) { o.Annotations = map[string]string{v1alpha1.AnnotationApprove: p.Digest} })
		}
		return hasPhase(v1alpha1.PhaseRunning)(i)
	})
	if approved == 0 {
		t.Fatal("nothing was approved")
	}
	s.volume("n2")
	s.san.Boot("n2")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if on := s.san.Mapped("uuid-v1"); !slices.Equal(on, []string{"n2"}) {
			return fmt.Sprintf("v1 is mapped on %v; %s", on, i.Status.Message)
		}
		return hasPhase(v1alpha1.PhaseRunning)(i)
	})
	s.leave()
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.taint(true)
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || i.Status.Plan.Steps[0].Action != v1alpha1.ActionFenceNode {
			return "no plan: " + i.Status.Message
		}
		return ""
	})
}

// TestIscsi_differentLuns: two initiators see different LUNs, and nobody knows which is meant. None goes on record.
func TestIscsi_differentLuns(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.add("san", nil, "n1", "n2")
	s.until("san", hasCondition(v1alpha1.ConditionLunReady, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Missing: ", "n2 ("))
	if m := s.member("n1"); m.Spec.Lun != nil || m.Spec.Reservation != nil || len(s.san.Keys(s.lun)) > 0 {
		t.Fatalf("a LUN went on record before every initiator saw it: %+v", m.Spec)
	}
	other := s.san.AddLUN("2")
	s.san.Show("n2", other)
	s.san.SetAgent("n2", decide.AgentUp)
	s.until("san", hasCondition(v1alpha1.ConditionLunReady, metav1.ConditionFalse, v1alpha1.ReasonOtherLun, s.lun.Identity.WWID, "seen by n1", other.Identity.WWID, "seen by n2"))
	s.san.Show("n2", s.lun)
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
}
