package storage

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestHosts_ofAKindThatNobodyLooksAfter: hosts that a storage of a switched-off kind wants, or has a Member on, are given to nobody else. No
// reconciler of Iscsis runs here.
func TestHosts_ofAKindThatNobodyLooksAfter(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.iscsi = backendtest.New(t, backendtest.Options{Type: v1alpha1.StorageTypeCephFS, Driver: v1alpha1.DriverISCSI, Exclusive: true})
	o := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "luns"}}
	o.Spec.IQN, o.Spec.Targets, o.Spec.Initiators = "iqn.2003-01.org.example:t", []v1alpha1.PortalAddress{"192.0.2.1"}, []v1alpha1.HostName{"n1"}
	s.create(o)
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "iscsi.luns.n2"}}
	m.Spec.Of, m.Spec.Node = v1alpha1.MemberOwner{Kind: v1alpha1.KindIscsi, Name: o.Name, UID: o.UID}, "n2"
	s.create(m)
	s.create(newCluster("pool", "n1", "n2", "n3"))
	s.until("pool", has(v1alpha1.ConditionHostsValid, isFalse, v1alpha1.ReasonHostConflict, "n1: ", "n2: ", "Iscsi luns"), hasPhase(v1alpha1.PhaseWarning))
	if s.lvm.Attempts("n1") != 0 || s.lvm.Attempts("n2") != 0 || s.lvm.Empty("n3") {
		t.Errorf("steps %v", s.lvm.Log())
	}
}
