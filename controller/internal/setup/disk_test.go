package setup

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestRun_glusterDisk: with the rights of deploy/rbac a disk of a machine goes on record by what the cache, the API server and the agent say, once no Cluster chooses it.
func TestRun_glusterDisk(t *testing.T) {
	s := newSite(t)
	s.cfg.Image = "quarry.storage/controller:dev"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gluster-disk"}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gluster-disk"}, Provisioner: "example.com/fast"}
	s.create(ns)
	s.create(class)
	bind(t, s.admin, ns.Name, "quarry-gluster")
	c := &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "pool"}}
	c.Spec.Images = v1alpha1.GlusterImages{Glusterd2: "example.com/glusterd2:1", Etcd: "example.com/etcd:1"}
	c.Spec.Drivers, c.Spec.State = []v1alpha1.GlusterDriver{}, &v1alpha1.GlusterState{StorageClassName: class.Name}
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "own"}}
	n.Spec.Cluster, n.Spec.Storage = c.Name, []v1alpha1.GlusterStorage{{Device: v1alpha1.DevicePath(s.agent.Path("sdb"))}}
	n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{offNode}}},
	}}}}
	s.create(c)
	s.keep(n)
	s.with([]string{controllerGluster}, func(t *testing.T) {
		await(t, "the Cluster is in the way", func() string {
			if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil {
				return err.Error()
			}
			is := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDevicesAllocated)
			if is == nil || !strings.Contains(is.Message, "chosen by the spec of Cluster "+s.cluster.Name) {
				return fmtCondition(is) + " " + n.Status.Message
			}
			return ""
		})
		if len(n.Spec.Devices) > 0 {
			t.Errorf("%+v", n.Spec.Devices)
		}
		if err := s.admin.Delete(t.Context(), s.cluster); err != nil {
			t.Fatal(err)
		}
		await(t, "the disk is on record", func() string {
			if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil {
				return err.Error()
			}
			if len(n.Spec.Devices) != 1 {
				return fmtCondition(meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDevicesAllocated)) + " " + n.Status.Message
			}
			return ""
		})
		if r := n.Spec.Devices[0]; string(r.Node) != offNode || r.Serial != "OFF-1-SDB" || r.Allocated {
			t.Errorf("%+v", r)
		}
		s.device(t, "sdb", "the GlusterNode's", func(d v1alpha1.NodeDevice) bool { return d.InUseBy == "GlusterNode gluster-disk/own" })
	})
}
