package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestReconcile_lostMemberWithoutRecord: the Members are gone, as after a restore, while a node is dead. Its volumes still tell of its group.
// Once it is declared lost that group is foreign, even if its disks come back after all.
func TestReconcile_lostMemberWithoutRecord(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	c := s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	old := s.member("pool", "n2")
	uuid := old.Spec.Group.UUID
	s.addVolume("pool", "n2", "quarry-pool", "v1", func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI.VolumeAttributes = map[string]string{v1alpha1.AttributeGroupUUID: uuid}
	})
	s.agents["n2"].Kill()
	s.until("pool", s.hasState("n2", "offline"))
	old = s.member("pool", "n2")
	old.Finalizers = nil
	if err := s.client.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.delete(old)
	s.restartController()
	s.until("pool", func(*v1alpha1.Cluster) string {
		m := s.member("pool", "n2")
		if m == nil || m.UID == old.UID || m.Spec.Group == nil || m.Spec.Group.UUID != uuid || m.Spec.Group.Name != "quarry-pool" {
			return "the group is not recorded again"
		}
		return ""
	})
	m := s.member("pool", "n2")
	m.Spec.Lost = string(m.UID)
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.until("pool", s.hasState("n2", "failed"))
	s.deletePersistentVolume("v1")
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if !slices.Equal(c.Status.LostGroups, []string{uuid}) {
			return "the group is not among the lost ones"
		}
		return ""
	})
	s.agents["n2"].Restart(t)
	s.await("agent of n2 connected", func() string { return up(s.pool, "n2") })
	s.until("pool", hasCondition(ready, isFalse, v1alpha1.ReasonVolumeGroupConflict, "declared lost"))
	if m := s.member("pool", "n2"); m.Spec.Group != nil && m.Spec.Group.UUID == uuid {
		t.Errorf("the lost group was taken back: %+v", m.Spec.Group)
	}
	if got := s.disksOf("n2", string(c.UID)); len(got) != 1 {
		t.Errorf("disks of the lost group: %v", got)
	}
}
