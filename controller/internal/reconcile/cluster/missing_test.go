package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// lose takes disk sdc of n1 away, and waits until the controller knows.
func lose(s *suite) {
	s.t.Helper()
	s.agents["n1"].Unplug("sdc")
	s.await("the group without sdc", func() string {
		if g := s.pool.Node("n1").Groups; len(g) != 1 || !g[0].Partial {
			return "still complete"
		}
		return ""
	})
}

func TestReconcile_deleteWithDiskThatDied(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	lose(s)
	s.until("pool", hasPhase(v1alpha1.PhaseWarning))
	s.deleteCluster("pool")
	s.untilGone("pool")
	if !s.agents["n1"].IsEmpty("sdb") || s.agents["n1"].IsEmpty("sdc") {
		t.Error("the disk that is there is not clean, or the one that is away is")
	}
}

func TestReconcile_deleteWaitsForVolumesOfAPartialGroup(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.addVolume("pool", "n1", "quarry-pool", "v1")
	lose(s)
	s.deleteCluster("pool")
	s.until("pool", all(hasPhase(v1alpha1.PhaseDeleting), s.hasState("n1", "failed", "quarry-pool/v1")))
	if g := s.agents["n1"].Groups(); len(g) != 1 || len(g[0].Disks) != 2 {
		t.Errorf("groups: %+v", g)
	}
	s.agents["n1"].Plug("sdc")
	s.removeVolume("n1", "quarry-pool", "v1")
	s.untilGone("pool")
}

func TestReconcile_diskOfRemovedHostComesBack(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	lose(s)
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n2"} })
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), func(*v1alpha1.Cluster) string {
		if !s.agents["n1"].IsEmpty("sdb") {
			return "sdb is not clean"
		}
		return ""
	}))
	s.agents["n1"].Plug("sdc")
	s.until("pool", func(*v1alpha1.Cluster) string {
		if !s.agents["n1"].IsEmpty("sdc") {
			return "sdc is not clean"
		}
		return ""
	})
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

// TestReconcile_boundVolumeThatIsNotThere: somebody removes a logical volume by hand. The group is there, and the Cluster is not Ready.
func TestReconcile_boundVolumeThatIsNotThere(t *testing.T) {
	for what, class := range map[string]string{"of its class": "pool", "that a person made a PersistentVolume for": ""} {
		t.Run(what, func(t *testing.T) { boundVolumeThatIsNotThere(t, class) })
	}
}

func boundVolumeThatIsNotThere(t *testing.T, class string) {
	t.Helper()
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	const lv = "pvc-00000000-0000-0000-0000-000000000001"
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.agents["n1"].AddVolume("quarry-pool", lv, 1<<30)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: lv}}
	pv.Spec.StorageClassName, pv.Spec.AccessModes = class, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: gibibyte}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: "n1/quarry-pool/" + lv}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "data"}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: v1alpha1.TopologyHost, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"},
		}},
	}}}}
	s.createPV(pv)
	pv.Status.Phase = corev1.VolumeBound
	if err := s.client.Status().Update(t.Context(), pv); err != nil {
		t.Fatal(err)
	}
	// Every report knows a volume that old.
	s.r.Now = func() time.Time { return time.Now().Add(time.Hour) }
	// Its logical volume is there, and no pod gets it without the tag.
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), hasCondition(ready, isFalse, v1alpha1.ReasonVolumeUnusable, lv+" (claim ns/data)")))
	s.agents["n1"].TagVolume("quarry-pool", lv, pv.Spec.CSI.VolumeHandle)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.agents["n1"].RemoveVolume("quarry-pool", lv)
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), s.hasState("n1", "online", lv+" (claim ns/data)"),
		hasCondition(ready, isFalse, v1alpha1.ReasonVolumeLost, "no logical volume exists of "+lv)))
	if s.class("pool") == nil {
		t.Error("the StorageClass is gone")
	}
	s.agents["n1"].AddVolume("quarry-pool", lv, 1<<30)
	s.agents["n1"].TagVolume("quarry-pool", lv, pv.Spec.CSI.VolumeHandle)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}
