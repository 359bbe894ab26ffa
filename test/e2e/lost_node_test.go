//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestLostNode: a node burns down. Its claim is deleted, and nothing happens until a person says that the node is lost. Then its volume and its
// Member go, and so does the Cluster, without anything done by hand. What comes back on its disks is nobody's: a person cleans it.
func TestLostNode(t *testing.T) {
	turn(t, 6, 20)
	const name = "lost-node"
	victim := spareNode(t)
	other := nodes[(slices.Index(nodes, victim)+1)%len(nodes)]
	cluster := newCluster(name, victim, other)
	create(t, cluster)
	waitReady(t, name, limitReady)
	devices := devicesOf(t, name)[victim]
	c := claim(t, name, name, "64Mi")
	p := pod(t, name, victim, "echo lost > /data0/file", c)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	volume := volumeOf(t, c)
	member, err := memberOf(t.Context(), name, victim)
	if err != nil {
		t.Fatal(err)
	}

	lab(t, "node", "kill", victim)
	back := false
	t.Cleanup(func() {
		if !back {
			lab(t, "node", "start", victim)
		}
	})
	lab(t, "kubectl", "delete", "node", victim)
	setHosts(t, name, other)
	waitOffline(t, name, victim)
	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	// Long enough for a volume that is deleted without asking its node. There is no event to wait for.
	time.Sleep(5 * time.Second)
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(volume), volume); err != nil {
		t.Fatalf("a volume counts as deleted even if nobody said that its node is lost: %v", err)
	}

	lab(t, "kubectl", "patch", "member", member.Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"lost":"%s"}}`, member.UID))
	waitForgotten(t, name, victim, member.Spec.Group.UUID, volume)
	if err := kube.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitGone(t, name)
	back = true
	bringBack(t, victim, name, devices)
}

// waitOffline waits until nobody says any more that a member is ready: it is refused to call such a one lost.
func waitOffline(t *testing.T, cluster, node string) {
	t.Helper()
	eventually(t, limitReady, node+" is offline", func(ctx context.Context) error {
		m, err := memberOf(ctx, cluster, node)
		if err != nil {
			return err
		}
		if m.Status.Flags.IsUp || slices.ContainsFunc(m.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue
		}) {
			return fmt.Errorf("state %s, %+v", m.Status.State, m.Status.Conditions)
		}
		return nil
	})
}

// waitForgotten waits until nothing but its group's UUID tells of a lost member.
func waitForgotten(t *testing.T, cluster, node, group string, v *corev1.PersistentVolume) {
	t.Helper()
	eventually(t, limitPod, "the volume and the Member of "+node+" are gone", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(v), v); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is %s: %w", v.Name, v.Status.Phase, err)
		}
		members, err := membersOf(ctx, cluster)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(members, func(m v1alpha1.Member) bool { return string(m.Spec.Node) == node }) {
			return fmt.Errorf("members: %s", describeMembers(members))
		}
		c, err := getCluster(ctx, cluster)
		if err == nil && !slices.Contains(c.Status.LostGroups, group) {
			err = fmt.Errorf("lost groups are %v", c.Status.LostGroups)
		}
		return err
	})
}

// bringBack starts a node again that Kubernetes has forgotten, and cleans by hand what a lost group left on its disks, as a person would.
func bringBack(t *testing.T, node, cluster string, devices []string) {
	t.Helper()
	lab(t, "node", "start", node)
	eventually(t, limitPod, node+" is back", func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := kube.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				sn, err := getNode(ctx, node)
				if err == nil && sn.Status.State != "online" {
					err = fmt.Errorf("its StorageNode is %s: %s", sn.Status.State, sn.Status.Message)
				}
				return err
			}
		}
		return fmt.Errorf("not ready: %+v", n.Status.Conditions)
	})
	group := v1alpha1.DefaultVolumeGroupPrefix + cluster
	onNode(t, node, fmt.Sprintf(`export LVM_SYSTEM_DIR=/var/lib/quarry/lvm
		if vgs %[1]s >/dev/null 2>&1; then
			vgremove --yes --force --quiet %[1]s
			for d in %[2]s; do pvremove --yes --quiet $d; dd if=/dev/zero of=$d bs=1M count=1 conv=fsync 2>/dev/null; done
		fi`, group, strings.Join(devices, " ")))
	for _, d := range devices {
		checkClean(t, node, d)
	}
}
