package gluster

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/cluster"
)

// fuse has a cluster deploy the driver for volumes.
func fuse(c *v1alpha1.GlusterCluster) {
	c.Spec.Drivers, c.Spec.Images.Drivers = []v1alpha1.GlusterDriver{v1alpha1.GlusterFuse}, map[string]v1alpha1.GlusterImage{"gluster-fuse": "example.com/fuse:1"}
}

// released makes a PersistentVolume that is released and names a volume. There is one of a name for all tests, so that a test that calls it runs alone.
func (s *suite) released(volume string) *corev1.PersistentVolume {
	s.t.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-of-" + volume}}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Name(v1alpha1.GlusterFuse), VolumeHandle: volume}
	must(s.t, s.client.Create(s.t.Context(), pv))
	pv.Status.Phase = corev1.VolumeReleased
	must(s.t, s.client.Status().Update(s.t.Context(), pv))
	return pv
}

// online reports whether so many nodes are.
func (s *suite) online(nodes int) func() bool {
	return func() bool {
		n := 0
		for _, one := range s.nodes() {
			if one.Status.State == "online" && one.Status.Capacity.Total != nil {
				n++
			}
		}
		return n == nodes
	}
}

// TestNode_ofOlderStore: the store of the pool is put back to a time before a volume. The servers list none of it, and a PersistentVolume names it: no node counts
// as empty, and the condition says which volume it is (G31).
func TestNode_ofOlderStore(t *testing.T) {
	s := newSuite(t)
	s.pool(4, fuse)
	t.Cleanup(func() {
		_ = s.client.Delete(context.WithoutCancel(t.Context()), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csi.Name(v1alpha1.GlusterFuse)}})
	})
	s.until("they serve", s.online(4))
	s.volume()
	pv := s.released("v")
	n := s.full()
	var lost *cluster.Volume
	func() {
		c := s.world.Begin(s.anyone("").Node)
		defer c.End()
		lost = c.C.Volumes["v"]
		delete(c.C.Volumes, "v")
	}()
	s.remove(n)
	s.passes(20)
	if c := s.condition(n, v1alpha1.ConditionDrained); c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonPoolUnknown || !strings.Contains(c.Message, pv.Name+" names the volume v") {
		t.Errorf("%+v", c)
	}
	for _, claim := range []string{n, workload.StateClaim(n)} {
		if c := s.claim(claim); c == nil || c.DeletionTimestamp != nil {
			t.Fatalf("%s: the claim %s is removed with its brick", s.state(n), claim)
		}
	}
	func() {
		c := s.world.Begin(s.anyone("").Node)
		defer c.End()
		c.C.Volumes["v"] = lost
	}()
	s.until("it is emptied, and gone", s.in(n, "gone"))
	s.whole()
	must(t, s.client.Delete(t.Context(), pv))
}
