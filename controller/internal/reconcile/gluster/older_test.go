package gluster

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// forget removes a PersistentVolume, as Kubernetes does once nothing uses it.
func (s *suite) forget(pv *corev1.PersistentVolume) {
	s.t.Helper()
	must(s.t, s.client.Delete(s.t.Context(), pv))
	must(s.t, client.IgnoreNotFound(s.client.Patch(s.t.Context(), pv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
}

// TestPool_readsVolumesOnce: whatever asks for the PersistentVolumes of a pool in a pass gets the same answer (G37).
func TestPool_readsVolumesOnce(t *testing.T) {
	s := newSuite(t)
	s.pool(1, fuse)
	s.until("it serves", s.online(1))
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.Drivers = []v1alpha1.GlusterDriver{} })
	reads := 0
	counted := interceptor.NewClient(s.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, is := list.(*corev1.PersistentVolumeList); is {
			reads++
		}
		return c.List(ctx, list, opts...)
	}})
	s.r.Client, s.r.Live = counted, counted
	s.passes(1)
	if reads != 1 {
		t.Errorf("a pass that retires a driver reads them %d times", reads)
	}
	must(t, s.client.Delete(t.Context(), s.cluster()))
	reads = 0
	s.passes(1)
	if reads != 1 {
		t.Errorf("a pass of a cluster that is deleted reads them %d times", reads)
	}
	s.until("it is gone", func() bool { return s.cluster() == nil })
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
	s.forget(pv)
}

// TestPool_silent: all servers are down for two hours. The cluster does not say that it serves, and its nodes are offline, as Kubernetes says. failOfflineAfter counts
// nothing of that time: when all come back, none of them is given up (G26).
func TestPool_silent(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3, func(c *v1alpha1.GlusterCluster) { c.Spec.FailOfflineAfter = &metav1.Duration{Duration: time.Hour} })
	s.until("it runs", s.running(3))
	nodes := s.nodes()
	for _, n := range nodes {
		s.halt(n.Name)
	}
	must(t, s.pass())
	must(t, s.pass())
	for _, condition := range []string{v1alpha1.ConditionNodesReady, v1alpha1.ConditionReady} {
		if c := s.ofCluster(condition); c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonPoolUnknown {
			t.Errorf("%+v", c)
		}
	}
	if s.state(nodes[0].Name) != "online" {
		t.Error("it is offline at once")
	}
	for _, n := range nodes {
		s.until(n.Name+" is offline", s.in(n.Name, "offline"))
	}
	for range 40 {
		must(t, s.pass())
		s.ahead += 3 * time.Minute
	}
	for _, n := range nodes {
		delete(s.halted, n.Name)
	}
	for range 20 {
		must(t, s.pass())
		for _, n := range s.nodes() {
			if n.DeletionTimestamp != nil {
				t.Fatalf("node %s is given up, and all servers were down", n.Name)
			}
		}
	}
	s.until("it runs again", s.running(3))
	// One that is down while the others serve is given up after that time, and not before.
	s.halt(nodes[0].Name)
	s.until("it is offline", s.in(nodes[0].Name, "offline"))
	s.passes(30)
	if n := s.node(nodes[0].Name); n.DeletionTimestamp != nil {
		t.Error("it is given up too early")
	}
	s.until("it is given up", func() bool { return s.tells("offline for longer than failOfflineAfter") })
}

// TestNode_lostWhileSilent: no server of the pool answers, and one is gone for ever. A person can say so once its node counts as offline.
func TestNode_lostWhileSilent(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	n := s.inZone("z0")
	for _, one := range s.nodes() {
		s.halt(one.Name)
	}
	must(t, s.pass())
	s.until("it is offline, as the policy wants it", s.in(n, "offline"))
	s.edit(n, func(n *v1alpha1.GlusterNode) { n.Spec.Lost = string(n.UID) })
	s.until("it is gone", s.in(n, "gone"))
}
