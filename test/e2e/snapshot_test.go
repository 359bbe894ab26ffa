//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var snapshotKind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}

// thinCluster is a Cluster with a thin pool on every host.
func thinCluster(name string, pool v1alpha1.ThinPoolSpec, hosts ...string) *v1alpha1.Cluster {
	c := newCluster(name, hosts...)
	c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &pool}
	return c
}

// snapshot makes a VolumeSnapshot of a claim and waits until it can be used.
func snapshot(t *testing.T, name, class string, of *corev1.PersistentVolumeClaim) *unstructured.Unstructured {
	t.Helper()
	s := snapshotObject(name, class, of.Name)
	createObject(t, s)
	waitSnapshot(t, s)
	return s
}

// from gives a claim the content of a snapshot or of another claim.
func from(kind, name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: kind, Name: name}
		if kind == snapshotKind.Kind {
			c.Spec.DataSource.APIGroup = ptr.To(snapshotKind.Group)
		}
	}
}

// TestSnapshotAndClone: a snapshot keeps what was there when it was taken, a clone has what is there now, both are thin and go their
// own ways, and they outlive the volume that they are of.
func TestSnapshotAndClone(t *testing.T) {
	turn(t, 1, 2)
	create(t, thinCluster("thin", v1alpha1.ThinPoolSpec{Percent: ptr.To[int32](80), OverprovisionRatio: "2.0"}, lease(t)))
	waitReady(t, "thin", limitPod)
	origin := claim(t, "origin", "thin", "400Mi")
	writer := waitPod(t, pod(t, "origin-writer", "", "echo first > /data0/file; sync; echo written; sleep 3600", origin), corev1.PodRunning)
	eventually(t, limitPod, "the first content is written", func(context.Context) error {
		if out := logs(writer); !strings.Contains(out, "written") {
			return fmt.Errorf("log %q", out)
		}
		return nil
	})
	kept := snapshot(t, "kept", "thin", origin)
	inPod(t, writer, "echo second > /data0/file; sync")

	restored := claim(t, "restored", "thin", "400Mi", from(snapshotKind.Kind, kept.GetName()))
	// Larger than its source: the filesystem is grown when it is mounted first.
	cloned := claim(t, "cloned", "thin", "600Mi", from("PersistentVolumeClaim", origin.Name))
	both := waitPod(t, pod(t, "copies", "", "cat /data0/file /data1/file; df -P -m /data1 | tail -n 1; echo third > /data0/file; sync; sleep 3600",
		restored, cloned), corev1.PodRunning)
	eventually(t, limitPod, "the copies are read", func(context.Context) error {
		lines := strings.Split(strings.TrimSpace(logs(both)), "\n")
		if len(lines) < 3 || lines[0] != "first" || lines[1] != "second" {
			return fmt.Errorf("the snapshot and the clone hold %q", lines)
		}
		var device string
		var size int
		if _, err := fmt.Sscan(lines[2], &device, &size); err != nil || size < 500 {
			return fmt.Errorf("the clone's filesystem is %q", lines[2])
		}
		return nil
	})
	if out := inPod(t, writer, "cat /data0/file"); strings.TrimSpace(out) != "second" {
		t.Errorf("the origin holds %q after its copy was written", out)
	}
	node, group, name := handle(t, volumeOf(t, origin))
	for _, c := range []*corev1.PersistentVolumeClaim{restored, cloned} {
		n, _, lv := handle(t, volumeOf(t, c))
		if n != node {
			t.Errorf("copy %s is on %s, its source on %s", c.Name, n, node)
		}
		if out := onNode(t, node, "lvs --foreign --noheadings -o segtype,pool_lv "+group+"/"+lv); !strings.Contains(out, "thin") {
			t.Errorf("copy %s is not thin: %s", c.Name, out)
		}
	}

	remove(t, writer)
	remove(t, origin)
	eventually(t, limitPod, "the origin is gone from the node", func(context.Context) error {
		out, err := tryOnNode(node, "lvs --foreign --noheadings -o lv_name "+group)
		if err != nil || strings.Contains(out, name) {
			return errors.Join(fmt.Errorf("logical volumes: %s", out), err)
		}
		return nil
	})
	if out := inPod(t, both, "cat /data0/file /data1/file"); out != "third\nsecond\n" {
		t.Errorf("without their origin the copies hold %q", out)
	}
	again := claim(t, "again", "thin", "400Mi", from(snapshotKind.Kind, kept.GetName()))
	reader := waitPod(t, pod(t, "again-reader", "", "cat /data0/file", again), corev1.PodSucceeded)
	if out := logs(reader); strings.TrimSpace(out) != "first" {
		t.Errorf("the snapshot holds %q after its origin is gone", out)
	}
}

// TestThinPoolLimits: no more is promised than the ratio allows, and a pool that fills up is told of before it is full.
func TestThinPoolLimits(t *testing.T) {
	turn(t, 8, 20)
	node := lease(t)
	create(t, thinCluster("tight", v1alpha1.ThinPoolSpec{Size: ptr.To(resource.MustParse("512Mi")), OverprovisionRatio: "1.5"}, node))
	waitReady(t, "tight", limitPod)
	first, second := claim(t, "tight-first", "tight", "400Mi"), claim(t, "tight-second", "tight", "300Mi")
	user := waitPod(t, pod(t, "tight-user", "", "sleep 3600", first, second), corev1.PodRunning)

	over := claim(t, "tight-over", "tight", "200Mi")
	waiting := pod(t, "tight-waiting", "", "sleep 3600", over)
	eventually(t, limitPod, "the pod that asks for too much is told so", func(ctx context.Context) error {
		found := &corev1.Pod{}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(waiting), found); err != nil {
			return err
		}
		if trouble := podTrouble(found); !strings.Contains(trouble, "did not have enough free storage") {
			return fmt.Errorf("pod: %s %s", found.Status.Phase, trouble)
		}
		return nil
	})
	if out := onNode(t, node, "lvs --foreign --noheadings -o lv_name quarry-tight | grep -c pvc- || true"); strings.TrimSpace(out) != "2" {
		t.Errorf("there are %s volumes in the pool, want 2", strings.TrimSpace(out))
	}

	// With room in the group the pool would grow at 80 %, and nobody had to be told.
	filler := "quarry-tight/filler"
	onNode(t, node, "lvcreate "+asNode(node)+"--yes --quiet --extents 100%FREE --name filler quarry-tight")
	t.Cleanup(func() { _, _ = tryOnNode(node, "lvremove "+asNode(node)+"--yes --quiet "+filler) })
	inPod(t, user, "head -c 350000000 /dev/urandom > /data0/fill; head -c 90000000 /dev/urandom > /data1/fill; sync")
	eventually(t, limitPod, "the fullness of the pool is told", func(ctx context.Context) error {
		c, err := getCluster(ctx, "tight")
		if err != nil {
			return err
		}
		members, err := membersOf(ctx, "tight")
		if err != nil || len(members) != 1 {
			return fmt.Errorf("members: %s, %w", describeMembers(members), err)
		}
		pool := members[0].Status.ThinPool
		if pool == nil || !pool.Known() || *pool.DataPercent < v1alpha1.ThinPoolWarnPercent {
			return fmt.Errorf("thin pool %+v", pool)
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == v1alpha1.ConditionThinPoolsHealthy && condition.Reason == v1alpha1.ReasonThinPoolNearlyFull {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", c.Status.Conditions)
	})
	// Events are written after the status, by somebody else.
	eventually(t, limitReady, "an event tells of the pool", func(context.Context) error {
		out, err := tryLab("kubectl", "get", "events", "-A", "--field-selector", "reason="+v1alpha1.ReasonThinPoolNearlyFull)
		if err == nil && !strings.Contains(out, "tight") {
			err = errors.New(out)
		}
		return err
	})

	onNode(t, node, "lvremove "+asNode(node)+"--yes --quiet "+filler)
	remove(t, user)
	remove(t, first)
	remove(t, second)
	waitPod(t, waiting, corev1.PodRunning)
}
