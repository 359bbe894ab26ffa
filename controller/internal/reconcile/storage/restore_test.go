package storage

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// lose deletes objects from the API server, whatever their finalizers, as a lost cluster does, and returns what a backup has of them.
func (s *suite) lose(objects ...client.Object) (backup []client.Object) {
	s.t.Helper()
	for _, o := range objects {
		if !s.fetch(o) {
			s.t.Fatalf("no %T %s", o, o.GetName())
		}
		copied := o.DeepCopyObject().(client.Object)
		copied.SetUID("")
		copied.SetResourceVersion("")
		copied.SetManagedFields(nil)
		backup = append(backup, copied)
		if len(o.GetFinalizers()) > 0 {
			o.SetFinalizers(nil)
			s.update(o)
		}
		_ = s.client.Delete(context.Background(), o, client.GracePeriodSeconds(0))
	}
	return backup
}

// TestRestore_withNewUIDsAndWithoutStatus loses all objects of a Cluster whose volumes are in use, and brings them back from a backup, as
// every backup does: with new UIDs, and without status. Nothing is torn down, and no step is taken.
func TestRestore_withNewUIDsAndWithoutStatus(t *testing.T) {
	for name, backedUp := range map[string]struct{ members, volumes bool }{
		"with Members":           {true, true},
		"without Members":        {false, true},
		"Members before volumes": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2")
			c := s.cluster("pool", "n1", "n2")
			for _, n := range []string{"n1", "n2"} {
				s.addVolume(c, n, "v-"+n)
			}
			s.settle("pool")
			before := s.onDisks(c.UID)
			s.restore(c, backedUp.members, backedUp.volumes)
			for range 6 {
				s.pass(delay)
				_, _ = s.reconcile("pool")
			}
			if after := s.onDisks(c.UID); after != before {
				t.Errorf("%s\nbecame\n%s", before, after)
			}
			for _, n := range []string{"n1", "n2"} {
				m := s.mustMember("pool", n)
				if !m.DeletionTimestamp.IsZero() || backedUp.members && (m.Spec.Of.UID != c.UID || m.Status.State != "") {
					t.Errorf("%s is condemned, or a member of the lost Cluster is used: %+v, %+v", m.Name, m.Spec, m.Status)
				}
			}
			if backedUp.members {
				s.until("pool", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonNameTaken, "n1: ", "n2: "))
			} else {
				s.until("pool", has(v1alpha1.ConditionDisksReady, isFalse, v1alpha1.ReasonVolumeGroupLost))
			}
		})
	}
}

// onDisks says what an owner has on n1 and n2, and which steps were ever taken.
func (s *suite) onDisks(uid types.UID) string {
	s.t.Helper()
	return fmt.Sprintf("%+v %+v %v", *s.lvm.Group(uid, "n1"), *s.lvm.Group(uid, "n2"), s.lvm.Log())
}

// restore loses the Cluster pool with its Members and volumes on n1 and n2, and brings the Cluster back, with new UIDs.
func (s *suite) restore(c *v1alpha1.Cluster, members, volumes bool) {
	s.t.Helper()
	var pvs []client.Object
	for _, n := range []string{"v-n1", "v-n2"} {
		pv := &corev1.PersistentVolume{}
		pv.Name = n
		pvs = append(pvs, pv)
	}
	lost := s.lose(c.DeepCopy(), s.mustMember("pool", "n1"), s.mustMember("pool", "n2"))
	pvs = s.lose(pvs...)
	s.restartController()
	if members {
		for _, m := range lost[1:] {
			s.create(m)
		}
	}
	if volumes {
		for _, pv := range pvs {
			s.create(pv)
		}
	}
	s.create(lost[0])
}

// Only the status is lost.
func TestRestore_withoutStatus(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	before := len(s.lvm.Log())
	for _, n := range []string{"n1", "n2"} {
		m := s.mustMember("pool", n)
		m.Status = v1alpha1.MemberStatus{}
		if err := s.client.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	c = s.get("pool")
	c.Status = v1alpha1.ClusterStatus{}
	if err := s.client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.restartController()
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if len(s.lvm.Log()) != before || s.mustMember("pool", "n2").Status.Volumes != 1 {
		t.Errorf("steps %v", s.lvm.Log())
	}
}

// Members are lost and the Cluster is not, as when their CRD was deleted and made again.
func TestRestore_withoutMembers(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	c := s.cluster("pool", "n1", "n2", "n3")
	s.addVolume(c, "n2", "v1")
	s.list("pool", "n1", "n2")
	s.settle("pool")
	before := len(s.lvm.Log())
	uids := map[types.UID]bool{}
	for _, n := range []string{"n1", "n2", "n3"} {
		m := s.mustMember("pool", n)
		uids[m.UID] = true
		s.lose(m)
	}
	s.restartController()
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	for _, n := range []string{"n1", "n2", "n3"} {
		m := s.mustMember("pool", n)
		if uids[m.UID] || m.Spec.Group == nil || m.Spec.Group.UUID != s.lvm.Group(c.UID, n).UUID {
			t.Errorf("%s: %+v", n, m.Spec)
		}
	}
	// What was leaving leaves anew, with the full delay.
	s.pass(delay - time.Minute)
	if complaint := leaving(v1alpha1.ReasonHostNotListed)(s.mustMember("pool", "n3")); complaint != "" {
		t.Error(complaint)
	}
	s.settle("pool")
	if m := s.mustMember("pool", "n3"); !m.DeletionTimestamp.IsZero() || len(s.lvm.Log()) != before {
		t.Errorf("steps %v", s.lvm.Log())
	}
}
