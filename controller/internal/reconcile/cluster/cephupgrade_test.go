package cluster

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// images are those of the deployed daemons of some kinds, by kind, a dot, and name.
func (k *kubelet) images(kinds ...string) map[string]string {
	k.t.Helper()
	var all appsv1.DeploymentList
	if err := k.client.List(k.t.Context(), &all, client.InNamespace(cephname.Namespace)); err != nil {
		k.t.Fatal(err)
	}
	out := map[string]string{}
	for _, d := range all.Items {
		if kind := d.Labels[cephname.LabelDaemon]; slices.Contains(kinds, kind) {
			out[kind+"."+d.Labels[cephname.LabelID]] = d.Spec.Template.Spec.Containers[0].Image
		}
	}
	return out
}

func (k *kubelet) edit(edit func(*v1alpha1.ClusterSpec)) {
	k.t.Helper()
	c := k.get("files")
	edit(&c.Spec)
	if err := k.client.Update(k.t.Context(), c); err != nil {
		k.t.Fatal(err)
	}
}

// need has Ceph say of every OSD whether placement groups need it.
func (k *kubelet) need(needed bool) {
	k.model.Change(func() {
		for i := range k.model.OSDs {
			k.model.OSDs[i].Needed = needed
		}
	})
}

var daemons = []string{cephname.DaemonMonitor, cephname.DaemonManager, cephname.DaemonOSD, cephname.DaemonMetadata}

// Another image reaches every daemon, in Ceph's order, an OSD only when Ceph says that it may stop. The same holds for other resources.
func TestCeph_upgrade(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	k.until(hasCondition(v1alpha1.ConditionDaemonsCurrent, metav1.ConditionTrue, v1alpha1.ReasonDaemonsCurrent))

	const image = "quay.io/ceph/ceph:v20.2.5"
	k.replaced = nil
	k.need(true)
	k.edit(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Image: image} })
	k.until(hasCondition(v1alpha1.ConditionDaemonsCurrent, metav1.ConditionFalse, v1alpha1.ReasonDaemonsOutdated, "osd.0", "it cannot be stopped (ok to stop: no)"))
	for name, have := range k.images(cephname.DaemonOSD, cephname.DaemonMetadata) {
		if have == image {
			t.Errorf("%s was replaced before its time", name)
		}
	}
	k.need(false)
	k.until(hasCondition(v1alpha1.ConditionDaemonsCurrent, metav1.ConditionTrue, v1alpha1.ReasonDaemonsCurrent, image))
	for name, have := range k.images(daemons...) {
		if have != image {
			t.Errorf("%s has %s", name, have)
		}
	}
	// The last pod may still be of the one before.
	k.work()
	k.inOrder()

	k.replaced = nil
	k.edit(func(s *v1alpha1.ClusterSpec) {
		s.Ceph.Resources = &v1alpha1.CephResources{OSD: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}}
	})
	k.until(func(c *v1alpha1.Cluster) string {
		if len(k.replaced) < 3 {
			return "replaced: " + strings.Join(k.replaced, " ")
		}
		return hasCondition(v1alpha1.ConditionDaemonsCurrent, metav1.ConditionTrue, v1alpha1.ReasonDaemonsCurrent)(c)
	})
	k.work()
	k.inOrder()
	if len(k.replaced) != 3 {
		t.Errorf("other memory for OSDs replaced %v", k.replaced)
	}
}

// inOrder checks that daemons were replaced kind after kind, each once.
func (k *kubelet) inOrder() {
	k.t.Helper()
	last := 0
	for i, name := range k.replaced {
		kind, _, _ := strings.Cut(name, ".")
		at := slices.Index(daemons, kind)
		if at < last || slices.Contains(k.replaced[:i], name) {
			k.t.Errorf("replaced: %v", k.replaced)
			return
		}
		last = at
	}
}

// An image whose version nobody can tell is refused, and said to be. A daemon that is made meanwhile has the image of the others.
func TestCeph_imageOfUnknownVersion(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3", "n4")
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	k.edit(func(s *v1alpha1.ClusterSpec) {
		s.Ceph = &v1alpha1.CephSpec{Image: "quay.io/ceph/ceph@sha256:" + strings.Repeat("a", 64)}
		s.Hosts = append(s.Hosts, "n4")
	})
	k.until(k.served(4, 3))
	k.until(hasCondition(v1alpha1.ConditionDaemonsCurrent, metav1.ConditionFalse, v1alpha1.ReasonDaemonsOutdated, "The version of the image is not known"))
	for name, have := range k.images(daemons...) {
		if have != v1alpha1.CephImage {
			t.Errorf("%s has %s", name, have)
		}
	}
}
