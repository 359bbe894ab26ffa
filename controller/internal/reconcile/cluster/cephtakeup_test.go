package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// bury takes everything of the Cluster off the API server, as if that was lost, and returns the Secret with the keys, which somebody has a copy of. The daemons end, and the disks and what the monitors know stay.
func (k *kubelet) bury(hosts ...string) *corev1.Secret {
	k.t.Helper()
	ctx := context.Background()
	c := k.get("files")
	c.Finalizers = nil
	if err := k.client.Update(ctx, c); err != nil {
		k.t.Fatal(err)
	}
	if err := k.client.Delete(ctx, c); err != nil {
		k.t.Fatal(err)
	}
	return k.unmake(hosts...)
}

// unmake takes all that was made for the Cluster off the API server, and returns the Secret with the keys.
func (k *kubelet) unmake(hosts ...string) *corev1.Secret {
	k.t.Helper()
	ctx := context.Background()
	keys := &corev1.Secret{}
	if err := k.client.Get(ctx, client.ObjectKey{Namespace: cephname.Namespace, Name: cephname.Keys("files")}, keys); err != nil {
		k.t.Fatal(err)
	}
	var all appsv1.DeploymentList
	if err := k.client.List(ctx, &all, client.InNamespace(cephname.Namespace)); err != nil {
		k.t.Fatal(err)
	}
	for _, h := range hosts {
		m := k.member("files", h)
		m.Finalizers = nil
		if err := k.client.Update(ctx, m); err != nil {
			k.t.Fatal(err)
		}
		if err := k.client.Delete(ctx, m); err != nil {
			k.t.Fatal(err)
		}
	}
	for i := range all.Items {
		k.stop(&all.Items[i])
	}
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Pod{}, &corev1.Secret{}, &corev1.ConfigMap{}, &policyv1.PodDisruptionBudget{}} {
		if err := k.client.DeleteAllOf(ctx, o, client.InNamespace(cephname.Namespace), client.GracePeriodSeconds(0)); err != nil {
			k.t.Fatal(err)
		}
	}
	k.restartCeph()
	keys.ResourceVersion, keys.UID = "", ""
	return keys
}

// had returns what is on record of hosts with a monitor each, and what a person says who has it taken up.
func (k *kubelet) had(hosts ...string) (map[string]v1alpha1.MemberCeph, *v1alpha1.CephTakeUp) {
	k.t.Helper()
	had, takes := map[string]v1alpha1.MemberCeph{}, &v1alpha1.CephTakeUp{FSID: string(k.get("files").UID)}
	for _, h := range hosts {
		had[h] = *k.member("files", h).Spec.Ceph
		takes.Monitors = append(takes.Monitors, v1alpha1.CephTakeUpMonitor{Name: had[h].Monitor.Name, Host: v1alpha1.HostName(h)})
	}
	return had, takes
}

// waitsForKeys makes the Cluster anew, for it to take up the Ceph cluster of an FSID, and wants nothing to be done before the keys are there.
func (k *kubelet) waitsForKeys(takes *v1alpha1.CephTakeUp, hosts ...string) {
	k.t.Helper()
	k.fsid = takes.FSID
	done := len(k.model.Changes())
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{TakeUp: takes} }, hosts...)
	k.passes(5)
	if c := k.get("files"); c.Status.Ceph == nil || !strings.Contains(strings.Join(c.Status.Ceph.Waits, " "), cephname.LabelFSID+"="+takes.FSID) {
		k.t.Fatalf("without the keys it says %+v", c.Status.Ceph)
	}
	if got := k.model.Changes()[done:]; len(got) > 0 {
		k.t.Fatalf("without the keys Ceph was told %q", got)
	}
}

// TestCeph_takenUp: a Cluster under another UID takes up the Ceph cluster of an earlier one, with its monitors, OSDs and volumes, once its keys are there. Nothing is made anew, and nothing is taken before.
func TestCeph_takenUp(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	k.model.Change(func() { k.model.Volumes.All["kept"] = &cephtest.Subvolume{Bytes: 1} })
	had, takes := k.had("n1", "n2", "n3")
	// Two of three are enough to begin with.
	takes.Monitors = slices.Delete(takes.Monitors, 1, 2)
	keys := k.bury("n1", "n2", "n3")
	done := len(k.model.Changes())
	k.waitsForKeys(takes, "n1", "n2", "n3")
	if err := k.client.Create(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	k.until(k.served(3, 3))
	for h, was := range had {
		k.same(h, was)
	}
	k.madeNothing(done)
	if c := k.get("files"); string(c.UID) == takes.FSID || c.Status.Ceph.FSID != takes.FSID {
		t.Errorf("UID %s, FSID %s", c.UID, c.Status.Ceph.FSID)
	}
	k.deletedClean()
}

// deletedClean deletes the Cluster, which its volume holds up, and wants clean disks once that is gone.
func (k *kubelet) deletedClean() {
	k.t.Helper()
	k.deleteCluster("files")
	k.until(func(c *v1alpha1.Cluster) string {
		if c == nil || !strings.Contains(c.Status.Message, "kept") {
			return "it does not say which volume holds it"
		}
		return ""
	})
	k.model.Change(func() { delete(k.model.Volumes.All, "kept") })
	k.until(func(c *v1alpha1.Cluster) string {
		if c != nil {
			return "still there"
		}
		return ""
	})
	for name, a := range k.agents {
		if !a.IsEmpty("sdb") {
			k.t.Errorf("%s: its disk carries %+v", name, a.Marks("sdb"))
		}
	}
}

// TestCeph_takenUpTwice: the Ceph cluster of a Cluster that is there is not taken up by another one, which can be deleted and leaves everything as it is.
func TestCeph_takenUpTwice(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3", "n4")
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	first := k.get("files")
	k.suite.add("second", func(s *v1alpha1.ClusterSpec) {
		s.StorageType = v1alpha1.StorageTypeCephFS
		s.Ceph = &v1alpha1.CephSpec{TakeUp: &v1alpha1.CephTakeUp{FSID: string(first.UID), Monitors: []v1alpha1.CephTakeUpMonitor{{Name: "a", Host: "n4"}}}}
	}, "n4")
	for range 5 {
		if err := k.reconcile("second"); err != nil {
			t.Fatal(err)
		}
	}
	if c := k.get("second"); c.Status.Ceph == nil || !strings.Contains(strings.Join(c.Status.Ceph.Waits, " "), "is that of Cluster files") {
		t.Fatalf("it says %+v", c.Status)
	}
	// A volume of the first one holds nothing of the second.
	k.model.Change(func() {
		k.model.Volumes.All["pvc-11111111-2222-4333-8444-555555555555"] = &cephtest.Subvolume{Bytes: 1 << 30}
	})
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-the-first"}}
	v.Spec.StorageClassName, v.Spec.AccessModes = "files", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: gibibyte}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverCephFS, VolumeHandle: string(first.UID) + "/quarry/quarry/pvc-11111111-2222-4333-8444-555555555555"}
	k.createPV(v)
	k.deleteCluster("second")
	for pass := 0; ; pass++ {
		if err := k.reconcile("second"); err != nil {
			t.Fatal(err)
		}
		c := &v1alpha1.Cluster{}
		if err := k.client.Get(t.Context(), clientKey("second"), c); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		} else if err != nil {
			break
		}
		if pass > 50 {
			t.Fatalf("it is still there: %s, %+v", c.Status.Message, c.Status.Ceph)
		}
	}
	k.passes(3)
	if why := k.served(3, 3)(k.get("files")); why != "" {
		t.Error(why)
	}
}

// TestCeph_restoredFromTheBeginning: a backup from before the first monitor has the Cluster under its UID, and nothing of its Ceph cluster. No second one is made beside the disks of the first, and the person who names its monitors gets
// all of it back.
func TestCeph_restoredFromTheBeginning(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	k.model.Change(func() { k.model.Volumes.All["kept"] = &cephtest.Subvolume{Bytes: 1} })
	had, takes := k.had("n1", "n2", "n3")
	c := k.get("files")
	maps.DeleteFunc(c.Annotations, func(name, _ string) bool { return strings.HasPrefix(name, v1alpha1.Group+"/ceph-") })
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Status = v1alpha1.ClusterStatus{}
	if err := k.client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	keys := k.unmake("n1", "n2", "n3")
	done := len(k.model.Changes())
	k.passes(5)
	if c := k.get("files"); c.Status.Ceph == nil || !strings.Contains(strings.Join(c.Status.Ceph.Waits, " "), "carries an OSD of it") {
		t.Fatalf("it says %+v", c.Status.Ceph)
	}
	var all appsv1.DeploymentList
	if err := k.client.List(t.Context(), &all, client.InNamespace(cephname.Namespace)); err != nil || len(all.Items) > 0 {
		t.Fatalf("%d Deployments, %v", len(all.Items), err)
	}
	k.edit(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{TakeUp: takes} })
	k.passes(3)
	if err := k.client.Create(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string {
		for h := range had {
			if why := k.recorded(h); why != "" {
				return why
			}
		}
		return k.served(3, 3)(c)
	})
	for h, was := range had {
		k.same(h, was)
	}
	k.madeNothing(done)
	k.deletedClean()
}
