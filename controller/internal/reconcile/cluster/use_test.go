package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// inUse checks whether the Cluster carries the finalizer of Clusters in use.
func inUse(want bool) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		if slices.Contains(c.Finalizers, v1alpha1.FinalizerInUse) != want {
			return fmt.Sprintf("the finalizers are %v, in use should be %t", c.Finalizers, want)
		}
		return ""
	}
}

func (s *suite) attach(name, attacher, volume string) *storagev1.VolumeAttachment {
	s.t.Helper()
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: attacher, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
	}}
	s.create(a)
	return a
}

// addForeign makes a PersistentVolume without a logical volume of ours.
func (s *suite) addForeign(name, class, driver string) {
	s.t.Helper()
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: gibibyte},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name},
			},
		},
	}
	s.createPV(v)
}

// createPV makes a PersistentVolume that goes with the test.
func (s *suite) createPV(v *corev1.PersistentVolume) {
	s.t.Helper()
	s.create(v)
	s.t.Cleanup(func() {
		// Kubernetes protects volumes with a finalizer, and nobody is here to remove it.
		v.Finalizers, v.ResourceVersion = nil, ""
		if err := s.client.Update(context.Background(), v); err != nil {
			s.t.Error(err)
		}
		s.delete(v)
	})
}

func TestReconcile_inUseWhileVolumesExist(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1")
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), inUse(false)))
	s.addForeign("of-another-class", "some", v1alpha1.DriverLVM)
	s.addForeign("of-another-driver", "pool", "other.example")
	s.until("pool", inUse(false))

	s.addVolume("pool", "n1", "quarry-pool", "v1")
	s.addVolume("pool", "n1", "quarry-pool", "v2")
	s.until("pool", inUse(true))
	s.removeVolume("n1", "quarry-pool", "v1")
	s.until("pool", inUse(true))
	s.removeVolume("n1", "quarry-pool", "v2")
	s.until("pool", inUse(false))

	// It is computed, not remembered: a finalizer that somebody took off or put on is no fact.
	s.addVolume("pool", "n1", "quarry-pool", "v3")
	s.until("pool", inUse(true))
	s.edit(func(c *v1alpha1.Cluster) {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == v1alpha1.FinalizerInUse })
	})
	s.until("pool", inUse(true))
	s.restartController()
	s.removeVolume("n1", "quarry-pool", "v3")
	s.until("pool", inUse(false))
	s.edit(func(c *v1alpha1.Cluster) { c.Finalizers = append(c.Finalizers, v1alpha1.FinalizerInUse) })
	s.until("pool", inUse(false))
}

func TestReconcile_deletionNamesVolumesAndFinishesByItself(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("shop", nil, "n1")
	s.until("shop", hasPhase(v1alpha1.PhaseRunning))
	s.addVolume("shop", "n1", "quarry-shop", "v1")
	s.until("shop", inUse(true))
	pv := &corev1.PersistentVolume{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: "v1"}, pv); err != nil {
		t.Fatal(err)
	}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "orders"}
	if err := s.client.Update(context.Background(), pv); err != nil {
		t.Fatal(err)
	}
	s.deleteCluster("shop")
	s.until("shop", all(hasPhase(v1alpha1.PhaseDeleting), inUse(true),
		hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "v1 (claim shop/orders)")))
	s.removeVolume("n1", "quarry-shop", "v1")
	s.untilGone("shop")
	if g := s.agents["n1"].Groups(); len(g) != 0 {
		t.Errorf("groups are left: %+v", g)
	}
}

func TestReconcile_inUseWhileAttached(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", nil, "n1")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.addForeign("elsewhere", "some", v1alpha1.DriverLVM)
	s.attach("of-another-driver", "other.example", "gone")
	s.attach("of-another-class", v1alpha1.DriverLVM, "elsewhere")
	s.until("pool", inUse(false))

	// The volume is gone, its attachment is not.
	a := s.attach("stale", v1alpha1.DriverLVM, "gone")
	s.until("pool", inUse(true))
	s.deleteCluster("pool")
	s.until("pool", hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "gone (attached to n1)"))
	if len(s.agents["n1"].Groups()) == 0 {
		t.Error("the host was torn down while a volume is attached")
	}
	s.delete(a)
	s.untilGone("pool")
}

func TestReconcile_readyWaitsForTheDriver(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.driver.state = backend.DriverState{}
	s.add("pool", nil, "n1")
	s.until("pool", all(hasPhase(v1alpha1.PhaseCreating),
		hasCondition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonCSIDeploying, "being deployed")))
	s.driver.state = backend.DriverState{Exists: true, Progress: "The Deployment is not available yet."}
	s.until("pool", hasCondition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonCSIDeploying, "not available yet"))
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if c.Status.DeviceCount != 1 || s.class("pool") == nil {
			return "the disks wait for the driver"
		}
		return ""
	})
	s.until("pool", hasPhase(v1alpha1.PhaseCreating))
	s.driver.state.Failed = "The image cannot be pulled."
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning),
		hasCondition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonCSIFailed, "cannot be pulled")))
	s.driver.state = backend.DriverState{Exists: true, Ready: true}
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning),
		hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)))
}

func TestReconcile_lastClusterWaitsForTheEndOfTheDriver(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.driver.state = backend.DriverState{Exists: true, Ready: true}
	s.add("pool", nil, "n1")
	s.add("other", nil, "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.until("other", hasPhase(v1alpha1.PhaseRunning))

	s.deleteCluster("other")
	s.untilGone("other")
	s.deleteCluster("pool")
	s.until("pool", hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The CSI driver is being removed"))
	if len(s.agents["n1"].Groups()) == 0 {
		t.Error("the host was torn down before the driver was gone")
	}
	s.driver.state = backend.DriverState{}
	s.untilGone("pool")
}
