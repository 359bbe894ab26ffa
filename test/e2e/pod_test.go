//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestPodWritesToLocalVolume follows one volume from its claim to its end: made when a pod needs it, mounted, written, kept over a
// new pod, and gone with its claim.
func TestPodWritesToLocalVolume(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fs, func(t *testing.T) { writeReadDelete(t, fs) })
	}
}

func writeReadDelete(t *testing.T, fs string) {
	cluster := newCluster("local-"+fs, lease(t))
	cluster.Spec.StorageClass = &v1alpha1.StorageClassSpec{FSType: fs}
	create(t, cluster)
	waitReady(t, cluster.Name, limitPod)
	c := claim(t, "data-"+fs, cluster.Name, "320Mi")
	first := waitPod(t, pod(t, "first-"+fs, "", "echo hello > /data0/file; sync; grep ' /data0 ' /proc/mounts; sleep 3600", c), corev1.PodRunning)
	eventually(t, time.Minute, "the filesystem is "+fs, func(context.Context) error {
		if out := logs(first); !strings.Contains(out, " /data0 "+fs+" ") {
			return fmt.Errorf("mounts: %q", out)
		}
		return nil
	})
	volume := volumeOf(t, c)
	node, group, name := handle(t, volume)
	if first.Spec.NodeName != node {
		t.Errorf("the pod is on %s, the volume on %s", first.Spec.NodeName, node)
	}
	if out := onNode(t, node, "lvs --foreign --noheadings -o lv_name,lv_tags "+group); !strings.Contains(out, name) || !strings.Contains(out, "quarry.storage/volume=") {
		t.Errorf("logical volumes of %s on %s: %s", group, node, out)
	}
	remove(t, first)
	second := waitPod(t, pod(t, "second-"+fs, "", "cat /data0/file; echo more >> /data0/file", c), corev1.PodSucceeded)
	if out := logs(second); strings.TrimSpace(out) != "hello" {
		t.Errorf("the second pod reads %q", out)
	}
	remove(t, second)
	remove(t, c)
	eventually(t, time.Minute, "the volume is gone", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(volume), volume); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the PersistentVolume is still there"), err)
		}
		if out, err := tryOnNode(node, "lvs --foreign --noheadings -o lv_name "+group); err != nil || strings.Contains(out, name) {
			return errors.Join(fmt.Errorf("logical volumes: %s", out), err)
		}
		return nil
	})
}

// TestDataSurvivesPowerCut writes with a sync, takes the power from the node, and reads again when it is back.
func TestDataSurvivesPowerCut(t *testing.T) {
	turn(t, 19, 20)
	create(t, newCluster("durable", "n3"))
	waitReady(t, "durable", limitPod)
	c := claim(t, "survivor", "durable", "200Mi")
	writer := waitPod(t, pod(t, "writer", "n3", "head -c 5000000 /dev/urandom > /data0/blob; sync; sha256sum /data0/blob; echo written; sleep 3600", c), corev1.PodRunning)
	eventually(t, time.Minute, "the data is written", func(context.Context) error {
		if out := logs(writer); !strings.Contains(out, "written") {
			return fmt.Errorf("log %q", out)
		}
		return nil
	})
	sum, _, _ := strings.Cut(logs(writer), " ")

	lab(t, "node", "kill", "n3")
	lab(t, "node", "start", "n3")
	remove(t, writer)
	reader := waitPod(t, pod(t, "reader", "n3", "sha256sum /data0/blob", c), corev1.PodSucceeded)
	if got, _, _ := strings.Cut(logs(reader), " "); got != sum || len(sum) != 64 {
		t.Errorf("the data is %s, before the power cut it was %s", got, sum)
	}
}

// TestExpandOnline grows a mounted volume while a pod uses it.
func TestExpandOnline(t *testing.T) {
	turn(t, 0, 2)
	create(t, newCluster("growing", lease(t)))
	waitReady(t, "growing", limitPod)
	c := claim(t, "grows", "growing", "200Mi")
	user := waitPod(t, pod(t, "user", "", "echo kept > /data0/file; sleep 3600", c), corev1.PodRunning)
	size := func() string { return strings.Fields(inPod(t, user, "df -P -m /data0 | tail -n 1"))[1] }
	before := size()
	expand(t, c, user, "500Mi")
	if after := size(); after == before {
		t.Errorf("the pod sees %s MiB before and after", after)
	}
	if out := inPod(t, user, "cat /data0/file"); strings.TrimSpace(out) != "kept" {
		t.Errorf("the file is %q", out)
	}
}

// expand grows the volume of a claim while a pod uses it. The kubelet looks at the volumes of a running pod once a minute or so, and
// whenever the pod changes: so the pod is changed once its filesystem is all that is left to grow.
func expand(t *testing.T, c *corev1.PersistentVolumeClaim, user *corev1.Pod, size string) {
	t.Helper()
	want, told := resource.MustParse(size), false
	patch := client.MergeFrom(c.DeepCopy())
	c.Spec.Resources.Requests[corev1.ResourceStorage] = want
	if err := kube.Patch(t.Context(), c, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitPod, "claim "+c.Name+" has grown to "+size, func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		got := c.Status.Capacity[corev1.ResourceStorage]
		if got.Cmp(want) >= 0 {
			return nil
		}
		pending := func(n corev1.PersistentVolumeClaimCondition) bool {
			return n.Type == corev1.PersistentVolumeClaimFileSystemResizePending
		}
		if !told && slices.ContainsFunc(c.Status.Conditions, pending) {
			told = true
			if err := kube.Patch(ctx, user, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"look": "now"}}}`))); err != nil {
				return err
			}
		}
		return fmt.Errorf("the claim has %s, conditions %v", got.String(), c.Status.Conditions)
	})
}

// TestBlockVolume gives a pod a raw block device.
func TestBlockVolume(t *testing.T) {
	turn(t, 0, 2)
	create(t, newCluster("raw", lease(t)))
	waitReady(t, "raw", limitPod)
	mode := corev1.PersistentVolumeBlock
	c := claim(t, "block", "raw", "100Mi", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &mode })
	writer := pod(t, "block-writer", "", "echo raw-data | dd of=/dev/data0 bs=512 seek=100 conv=fsync 2>/dev/null", c)
	waitPod(t, writer, corev1.PodSucceeded)
	remove(t, writer)
	reader := pod(t, "block-reader", "", "dd if=/dev/data0 bs=512 skip=100 count=1 2>/dev/null | head -c 8", c)
	waitPod(t, reader, corev1.PodSucceeded)
	if out := logs(reader); out != "raw-data" {
		t.Errorf("the device holds %q", out)
	}
}

// TestDeleteWaitsForVolumes: a Cluster with a volume of a claim is not taken apart, says which volume it waits for, and goes by itself when the claim is gone.
func TestDeleteWaitsForVolumes(t *testing.T) {
	turn(t, 1, 2)
	cluster := newCluster("waiting", lease(t))
	create(t, cluster)
	waitReady(t, "waiting", limitPod)
	c := claim(t, "holds", "waiting", "100Mi")
	p := pod(t, "holder", "", "echo kept > /data0/file", c)
	waitPod(t, p, corev1.PodSucceeded)
	volume := volumeOf(t, c)
	eventually(t, limitPod, "the in-use finalizer is there", func(ctx context.Context) error {
		found, err := getCluster(ctx, "waiting")
		if err != nil {
			return err
		}
		for _, f := range found.Finalizers {
			if f == v1alpha1.FinalizerInUse {
				return nil
			}
		}
		return fmt.Errorf("finalizers %v", found.Finalizers)
	})
	if err := kube.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitPod, "the Cluster names the volume that it waits for", func(ctx context.Context) error {
		found, err := getCluster(ctx, "waiting")
		if err != nil {
			return err
		}
		if !strings.Contains(found.Status.Message, volume.Name) {
			return fmt.Errorf("message %q", found.Status.Message)
		}
		return nil
	})
	remove(t, p)
	remove(t, c)
	waitGone(t, "waiting")
}
