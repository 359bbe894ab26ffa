//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// waitLeaving waits until the Member of a node leaves, takes no new volumes and says why.
func waitLeaving(t *testing.T, cluster, node, reason string) *v1alpha1.Member {
	t.Helper()
	var m *v1alpha1.Member
	eventually(t, 30*time.Second, node+" leaves "+cluster, func(ctx context.Context) (err error) {
		if m, err = memberOf(ctx, cluster, node); err != nil {
			return err
		}
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionLeaving)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || m.Status.State != "quiesced" {
			return fmt.Errorf("state %s, condition %+v", m.Status.State, c)
		}
		return nil
	})
	return m
}

// groupUUID asks the node's own LVM for the UUID of a group.
func groupUUID(t *testing.T, node, group string) string {
	t.Helper()
	return strings.TrimSpace(onNode(t, node, "vgs --foreign --noheadings -o vg_uuid "+group+" 2>/dev/null || true"))
}

func delay(d time.Duration) func(*v1alpha1.Cluster) {
	return func(c *v1alpha1.Cluster) { c.Spec.RemovalDelay = &metav1.Duration{Duration: d} }
}

// TestMemberLeavesAndReturns: a host that is taken off the list leaves slowly, and listing it again takes that back. Only then it is
// removed, and its disks are clean.
func TestMemberLeavesAndReturns(t *testing.T) {
	turn(t, 1, 2)
	const name = "comes-and-goes"
	const group = v1alpha1.DefaultVolumeGroupPrefix + name
	c := newCluster(name, "n1", "n2")
	delay(10 * time.Minute)(c)
	create(t, c)
	waitReady(t, name, limitReady)
	uuid := groupUUID(t, "n2", group)
	before, err := memberOf(t.Context(), name, "n2")
	if err != nil || before.Spec.Group == nil || before.Spec.Group.UUID != uuid {
		t.Fatalf("member %+v, %v; want the record of group %s", before, err, uuid)
	}

	setHosts(t, name, "n1")
	m := waitLeaving(t, name, "n2", v1alpha1.ReasonHostNotListed)
	if !strings.Contains(m.Status.Message, "10m") {
		t.Errorf("the message does not say when it is removed: %q", m.Status.Message)
	}
	setHosts(t, name, "n1", "n2")
	waitMembers(t, name, "n1", "n2")
	after, err := memberOf(t.Context(), name, "n2")
	if err != nil || after.UID != before.UID || groupUUID(t, "n2", group) != uuid {
		t.Errorf("the member was made anew: %v, group %s before, %s after", err, uuid, groupUUID(t, "n2", group))
	}

	devices := devicesOf(t, name)["n2"]
	update(t, name, delay(time.Second))
	setHosts(t, name, "n1")
	waitMembers(t, name, "n1")
	for _, d := range devices {
		checkClean(t, "n2", d)
	}
	checkLabel(t, "n2", "")
}

// TestTypoInHostsCondemnsNothing: a name that is wrong in a manifest is told, and the host that is missing in it keeps everything.
func TestTypoInHostsCondemnsNothing(t *testing.T) {
	turn(t, 12, 20)
	const name = "typo"
	const group = v1alpha1.DefaultVolumeGroupPrefix + name
	c := newCluster(name, "n1", "n2")
	c.Spec.RemovalDelay = nil
	create(t, c)
	waitReady(t, name, limitReady)
	uuid := groupUUID(t, "n2", group)
	setHosts(t, name, "n1", "n22")
	waitLeaving(t, name, "n2", v1alpha1.ReasonHostNotListed)
	eventually(t, 30*time.Second, "the unknown host is told", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		valid := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionHostsValid)
		if valid == nil || valid.Reason != v1alpha1.ReasonHostNotFound || !strings.Contains(valid.Message, "n22") {
			return fmt.Errorf("HostsValid is %+v", valid)
		}
		return nil
	})
	if _, err := memberOf(t.Context(), name, "n22"); err == nil {
		t.Error("a node that does not exist became a member")
	}
	setHosts(t, name, "n1", "n2")
	waitMembers(t, name, "n1", "n2")
	if groupUUID(t, "n2", group) != uuid || uuid == "" {
		t.Errorf("the group was made anew: %s, now %s", uuid, groupUUID(t, "n2", group))
	}
}

// TestMemberDeletionIsTheLatch: a Member is not deleted by mistake, one that holds data stays until it is empty, and the host begins
// afresh afterwards.
func TestMemberDeletionIsTheLatch(t *testing.T) {
	turn(t, 1, 2)
	const name = "latch"
	const group = v1alpha1.DefaultVolumeGroupPrefix + name
	create(t, newCluster(name, "n1", "n2"))
	waitReady(t, name, limitReady)
	uuid := groupUUID(t, "n1", group)
	onNode(t, "n1", "lvcreate "+asNode("n1")+"--yes --quiet --size 64M --name precious "+group)
	t.Cleanup(func() {
		_, _ = tryOnNode("n1", "lvremove "+asNode("n1")+"--yes --quiet "+group+"/precious 2>/dev/null || true") // Gone already when the test passed.
	})
	m, err := memberOf(t.Context(), name, "n1")
	if err != nil {
		t.Fatal(err)
	}
	out, err := tryLab("kubectl", "delete", "member", m.Name, "--wait=false")
	if err == nil {
		t.Fatalf("a Member that does not leave was deleted: %s", out)
	}
	if !strings.Contains(err.Error(), v1alpha1.AnnotationRemove) {
		t.Errorf("the refusal does not say how to do it: %v", err)
	}
	lab(t, "kubectl", "annotate", "member", m.Name, v1alpha1.AnnotationRemove+"="+string(m.UID))
	lab(t, "kubectl", "delete", "member", m.Name, "--wait=false")
	eventually(t, 30*time.Second, "the member is failed and names its volume", func(ctx context.Context) error {
		now, err := memberOf(ctx, name, "n1")
		if err != nil {
			return err
		}
		if now.UID != m.UID || now.Status.State != "failed" || !strings.Contains(now.Status.Message, "precious") {
			return fmt.Errorf("%s: %s", now.Status.State, now.Status.Message)
		}
		return nil
	})
	time.Sleep(3 * time.Second) // Nothing may happen: there is no event to wait for.
	if groupUUID(t, "n1", group) != uuid {
		t.Fatal("a group with a volume was touched")
	}
	onNode(t, "n1", "lvremove "+asNode("n1")+"--yes --quiet "+group+"/precious")
	eventually(t, limitReady, "n1 begins afresh", func(ctx context.Context) error {
		now, err := memberOf(ctx, name, "n1")
		if err != nil {
			return err
		}
		if now.UID == m.UID || now.Status.State != "online" || now.Spec.Group == nil || now.Spec.Group.UUID == "" || now.Spec.Group.UUID == uuid {
			return fmt.Errorf("UID %s, %s, group %+v", now.UID, now.Status.State, now.Spec.Group)
		}
		return nil
	})
}

// TestHostSelector: nodes join and leave by their labels.
func TestHostSelector(t *testing.T) {
	turn(t, 11, 20)
	const name, label = "selected", "quarry-e2e/disks"
	set := func(node, value string) {
		t.Helper()
		n := &corev1.Node{}
		if err := kube.Get(t.Context(), client.ObjectKey{Name: node}, n); err != nil {
			t.Fatal(err)
		}
		before := n.DeepCopy()
		if n.Labels[label] = value; value == "" {
			delete(n.Labels, label)
		}
		if err := kube.Patch(t.Context(), n, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			_, _ = tryLab("kubectl", "label", "node", n, label+"-")
		}
	})
	set("n1", "yes")
	c := newCluster(name)
	c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}
	delay(5 * time.Minute)(c)
	create(t, c)
	waitReady(t, name, limitReady)
	waitMembers(t, name, "n1")
	set("n2", "yes")
	waitMembers(t, name, "n1", "n2")
	set("n2", "")
	waitLeaving(t, name, "n2", v1alpha1.ReasonHostNotSelected)
	set("n2", "yes")
	waitMembers(t, name, "n1", "n2")
	update(t, name, delay(time.Second))
	set("n2", "no")
	waitMembers(t, name, "n1")
}
