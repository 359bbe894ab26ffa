//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOlderBackupOfTheApi: etcd is restored from before a host joined and before two volumes were made. The API server has forgotten them, and programs
// that run on know more than it does. Nothing is torn down and nothing is made; the volumes of before serve, and those of after serve again once a
// person brings their objects back.
func TestOlderBackupOfTheApi(t *testing.T) {
	turn(t, 19, 20)
	const name, first, joined = "older", "n1", "n2"
	c := newCluster(name, first)
	create(t, c)
	waitReady(t, name, limitReady)
	writer := waitPod(t, pod(t, "older-before", first, counting, claim(t, "older-before", name, "64Mi")), corev1.PodRunning)
	waitSynced(t, writer, 5)
	backup := filepath.Join(t.TempDir(), "etcd")
	lab(t, "etcd", "save", backup)

	list(t, name, first, joined)
	forgotten := map[string]*corev1.PersistentVolume{}
	synced := map[string]int{}
	for _, node := range []string{first, joined} {
		c := claim(t, "older-after-"+node, name, "64Mi")
		p := waitPod(t, pod(t, c.Name, node, counting, c), corev1.PodRunning)
		waitSynced(t, p, 5)
		forgotten[node], synced[node] = volumeOf(t, c), lastSynced(t, p)
	}
	disks := map[string]string{first: onDisks(t, first), joined: onDisks(t, joined)}
	before, ran := lastSynced(t, writer), processes(t)

	lab(t, "etcd", "restore", backup)
	// As Kubernetes asks for: one that runs on sees no pod that is made from now on. Containers run on.
	for _, node := range nodes {
		onNode(t, node, "pkill -x kubelet")
	}
	begunAnew(t, ran)
	t.Run("nothing is torn down", func(t *testing.T) {
		waitRunning(t, c, limitReady)
		if len(c.Spec.Hosts) != 1 {
			t.Fatalf("the Cluster lists %v: this is not the backup", c.Spec.Hosts)
		}
		eventually(t, limitReady, joined+" is a member that leaves, and holds what it has", func(ctx context.Context) error {
			m, err := memberOf(ctx, name, joined)
			if err != nil {
				return err
			}
			if m.Status.Volumes != 1 || !m.DeletionTimestamp.IsZero() {
				return fmt.Errorf("%d volumes, deleted at %v, %q", m.Status.Volumes, m.DeletionTimestamp, m.Status.Message)
			}
			return nil
		})
		// Long enough for somebody who removes what no object names. There is no event to wait for.
		time.Sleep(20 * time.Second)
		nothingHappens(t, name, disks)
		waitSynced(t, writer, before+5)
		if n := restartsOf(t, writer); n != 0 {
			t.Errorf("the writer was restarted %d times", n)
		}
	})
	list(t, name, first, joined)
	nothingHappens(t, name, disks)
	for node, v := range forgotten {
		c := bringVolumeBack(t, v)
		checkCounted(t, c, node, synced[node])
		remove(t, c)
		waitVolumeGone(t, v)
	}
}

// processes tells how often each process with caches, by pod and container, was started again.
func processes(t *testing.T) map[string]int32 {
	t.Helper()
	counts := map[string]int32{}
	pods := &corev1.PodList{}
	if err := kube.List(t.Context(), pods, client.InNamespace(controllerNamespace)); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == "controller" || s.Name == "driver" {
				counts[p.Name+"/"+s.Name] = s.RestartCount
			}
		}
	}
	if len(counts) < 3 {
		t.Fatalf("two controllers and a CSI controller at least are expected, and there are %v", counts)
	}
	return counts
}

// begunAnew waits until each of the processes was started again: one that goes on shows what the API server has forgotten.
func begunAnew(t *testing.T, before map[string]int32) {
	t.Helper()
	eventually(t, limitReady, "each process has begun anew", func(context.Context) error {
		for name, n := range processes(t) {
			if was, there := before[name]; there && n <= was {
				return fmt.Errorf("%s was started again %d times, and %d times before the restore", name, n, was)
			}
		}
		return nil
	})
}

// list has a Cluster use some hosts, and waits until it is Running with them.
func list(t *testing.T, cluster string, hosts ...string) {
	t.Helper()
	c, err := getCluster(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(c.DeepCopy())
	c.Spec.Hosts = newCluster(cluster, hosts...).Spec.Hosts
	if err := kube.Patch(t.Context(), c, patch); err != nil {
		t.Fatal(err)
	}
	waitReady(t, cluster, limitReady)
	for _, host := range hosts {
		eventually(t, limitReady, host+" is a member", func(ctx context.Context) error {
			m, err := memberOf(ctx, cluster, host)
			if err == nil && m.Status.State != "online" {
				err = fmt.Errorf("it is %s: %s", m.Status.State, m.Status.Message)
			}
			return err
		})
	}
}

// bringVolumeBack makes a PersistentVolume and its claim again that the API server has forgotten, as a person does who kept them.
func bringVolumeBack(t *testing.T, v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	t.Helper()
	again := v.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Name: v.Name, Annotations: v.Annotations, Labels: v.Labels, Finalizers: v.Finalizers}
	again.Spec.ClaimRef.UID, again.Spec.ClaimRef.ResourceVersion = "", ""
	again.Status = corev1.PersistentVolumeStatus{}
	createObject(t, again)
	c := claim(t, v.Spec.ClaimRef.Name, v.Spec.StorageClassName, "64Mi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = v.Name })
	bound(t, c)
	return c
}
