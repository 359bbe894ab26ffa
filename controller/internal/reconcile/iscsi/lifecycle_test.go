package iscsi

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

func TestIscsi_isMadeAndRemoved(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add("san", nil, "n1", "n2", "n3")
	i := s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.until("san", s.hasLabel("n1", "true"))
	s.wantMade(i, "n1", "n2", "n3")
	s.deleteIscsi("san")
	s.untilGone("san")
	if s.san.Group(s.lun) != nil || len(s.san.Keys(s.lun)) != 0 {
		t.Errorf("left: group %v, keys %v", s.san.Group(s.lun), s.san.Keys(s.lun))
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if s.san.Sessions(n) != 0 || s.label(n, v1alpha1.LabelInitiatorPrefix+"san") != "" || s.label(n, "kept") != "yes" {
			t.Errorf("%s has %d sessions", n, s.san.Sessions(n))
		}
	}
	err := s.client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: san.LeasePrefix + string(i.UID)}, &coordinationv1.Lease{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the lease: %v", err)
	}
}

// wantMade checks everything that is made for an Iscsi.
func (s *suite) wantMade(i *v1alpha1.Iscsi, nodes ...string) {
	s.t.Helper()
	if l := i.Status.Lun; l == nil || l.WWID != s.lun.Identity.WWID || !l.Reservations || i.Status.Writer == "" || i.Status.Epoch != 1 {
		s.t.Errorf("%+v", i.Status)
	}
	if g := s.san.Group(s.lun); g == nil || g.Name != sharedlun.GroupName(string(i.UID)) || len(s.san.Keys(s.lun)) != len(nodes) {
		s.t.Fatalf("group %+v, keys %v", g, s.san.Keys(s.lun))
	}
	for _, n := range nodes {
		s.wantJoined(n)
	}
	var class storagev1.StorageClass
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: i.Name}, &class); err != nil {
		s.t.Fatal(err)
	}
	if class.Provisioner != v1alpha1.DriverISCSI || class.Parameters[v1alpha1.ParameterIscsi] != string(i.UID) {
		s.t.Errorf("%+v", class)
	}
}

// wantJoined checks what a node has that joined the Iscsi san.
func (s *suite) wantJoined(n string) {
	s.t.Helper()
	m := s.member(n)
	if m.Spec.Group == nil || m.Spec.Group.UUID != iscsitest.GroupUUID || m.Spec.Lun == nil || m.Spec.Lun.IQN != iqn || m.Status.State != "online" {
		s.t.Errorf("%s: %+v %+v", n, m.Spec, m.Status)
	}
	if s.label(n, v1alpha1.LabelInitiatorPrefix+"san") != "true" || s.label(n, "kept") != "yes" {
		s.t.Errorf("%s is not labelled", n)
	}
}

func TestIscsi_secondOfOneTarget(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	time.Sleep(time.Second) // The API server counts the age in seconds.
	s.add("twin", nil, "n2")
	s.until("twin", hasCondition(v1alpha1.ConditionTargetUnique, metav1.ConditionFalse, v1alpha1.ReasonSameTarget, "Iscsi san"))
	s.until("twin", hasPhase(v1alpha1.PhaseFailed))
	if s.san.Sessions("n2") != 0 || len(s.san.Keys(s.lun)) != 1 {
		t.Errorf("the second Iscsi did something: %v", s.san.Calls())
	}
	s.deleteIscsi("twin")
	s.untilGone("twin")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	if s.san.Sessions("n1") != 1 || s.san.Group(s.lun) == nil {
		t.Error("the removal of the second Iscsi took something of the first")
	}
}

func TestIscsi_deleteWaitsForVolumes(t *testing.T) {
	s := newSuite(t, "n1")
	s.add("san", nil, "n1")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n1")
	s.deleteIscsi("san")
	s.until("san", func(i *v1alpha1.Iscsi) string { return lacks(i.Status.Message, "pv-v1") })
	for range 5 {
		s.leap(time.Minute)
		if err := s.reconcile("san"); err != nil {
			t.Fatal(err)
		}
	}
	if s.san.Group(s.lun) == nil || len(s.san.Keys(s.lun)) != 1 || s.san.Sessions("n1") != 1 {
		t.Fatal("something was torn down while a volume exists")
	}
	s.deleteVolume("pv-v1")
	s.until("san", func(i *v1alpha1.Iscsi) string { return lacks(i.Status.Message, "volume v1 on the LUN") })
	s.san.DropVolume(s.lun, "v1")
	s.untilGone("san")
	if s.san.Group(s.lun) != nil || len(s.san.Keys(s.lun)) != 0 {
		t.Error("the LUN is not clean")
	}
}

// TestIscsi_lostStatus: statuses can be lost. The records are in the specs of Members, so that no key is granted twice.
func TestIscsi_lostStatus(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add("san", nil, "n1", "n2")
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.volume("n1")
	s.wantVolumes(map[string]int32{"n1": 1, "n2": 0})
	keys := s.san.Keys(s.lun)
	i := s.get("san")
	i.Status = v1alpha1.IscsiStatus{}
	if err := s.client.Status().Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"n1", "n2"} {
		m := s.member(n)
		m.Status = v1alpha1.MemberStatus{}
		if err := s.client.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	s.restart()
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.wantVolumes(map[string]int32{"n1": 1, "n2": 0})
	if now := s.san.Keys(s.lun); !maps.Equal(keys, now) || len(now) != 2 {
		t.Errorf("keys %v, before %v", now, keys)
	}
	if i := s.get("san"); i.Status.VolumeCount != 1 || i.Status.Epoch != 1 {
		t.Errorf("%+v", i.Status)
	}
}

// wantVolumes waits until the Members tell how many volumes each node has. They tell of no space: it is the LUN's.
func (s *suite) wantVolumes(want map[string]int32) {
	s.t.Helper()
	s.until("san", func(*v1alpha1.Iscsi) string {
		for node, n := range want {
			if st := s.member(node).Status; st.Volumes != n || st.Capacity.Total != nil {
				return fmt.Sprintf("%s has %d volumes and %v bytes, want %d and none", node, st.Volumes, st.Capacity.Total, n)
			}
		}
		return ""
	})
}
