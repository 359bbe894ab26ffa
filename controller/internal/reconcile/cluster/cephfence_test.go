package cluster

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// user changes the Node user, as a person and its kubelet do.
func (k *kubelet) user(tainted bool, ready corev1.ConditionStatus, boot string) {
	k.t.Helper()
	n := &corev1.Node{}
	if err := k.client.Get(k.t.Context(), clientKey("user"), n); err != nil {
		k.t.Fatal(err)
	}
	if n.Spec.Taints = nil; tainted {
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	}
	if err := k.client.Update(k.t.Context(), n); err != nil {
		k.t.Fatal(err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "user"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.9"}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID = boot, "4c4c4544-0039-5910-8031-b7c04f433232"
	if err := k.client.Status().Update(k.t.Context(), n); err != nil {
		k.t.Fatal(err)
	}
}

// TestCeph_nodeOutOfService: the clients of a node that is off are blocked, whether or not it is a host of the Cluster, and let in only after another boot.
func TestCeph_nodeOutOfService(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	user := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "user"}}
	if err := k.client.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.client.Delete(k.t.Context(), user) }) // The server is used by this test alone, or removes all nodes itself.
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	blocked := func(want bool, record string) func(*v1alpha1.Cluster) string {
		return func(c *v1alpha1.Cluster) string {
			got := false
			k.model.Change(func() { got = slices.Contains(k.model.Blocked, "10.0.0.9:0/0") })
			if have := c.Annotations[v1alpha1.AnnotationCephBlocked]; got != want || !strings.Contains(have, record) || (record == "") != (have == "") {
				return "blocked " + strings.Join(k.model.Blocked, " ") + ", record " + have
			}
			return ""
		}
	}
	k.user(true, corev1.ConditionTrue, "one")
	for range 5 {
		k.work()
		if err := k.reconcile("files"); err != nil {
			t.Fatal(err)
		}
	}
	if problem := blocked(false, "")(k.get("files")); problem != "" {
		t.Errorf("a node that answers: %s", problem)
	}
	k.user(true, corev1.ConditionUnknown, "one")
	k.until(blocked(true, `"boot":"one"`))
	// The record outlasts the controller, and whoever takes the address off the list.
	k.model.Change(func() { k.model.Blocked = nil })
	k.restartCeph()
	k.until(blocked(true, `"boot":"one"`))
	// The person takes the taint off, and the kernel lived on.
	k.user(false, corev1.ConditionTrue, "one")
	k.until(func(c *v1alpha1.Cluster) string {
		if !slices.ContainsFunc(c.Status.Ceph.Waits, func(w string) bool { return strings.Contains(w, "booted anew") }) {
			return "it does not say that the node has to be booted"
		}
		return blocked(true, `"boot":"one"`)(c)
	})
	k.user(false, corev1.ConditionTrue, "two")
	k.until(blocked(false, ""))
}

// TestCeph_nodeGoneForEver: the address of a node that Kubernetes does not know any more stays blocked until a person lets it go, whoever takes it off Ceph's list.
func TestCeph_nodeGoneForEver(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	user := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "user"}}
	if err := k.client.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.client.Delete(k.t.Context(), user) }) // The test deletes it before that, if it comes so far.
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	blocked := func() bool {
		got := false
		k.model.Change(func() { got = slices.Contains(k.model.Blocked, "10.0.0.9:0/0") })
		return got
	}
	k.user(true, corev1.ConditionUnknown, "one")
	k.until(func(*v1alpha1.Cluster) string {
		if !blocked() {
			return "its clients are not blocked"
		}
		return ""
	})
	if err := k.client.Delete(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	offered := func(c *v1alpha1.Cluster) string {
		if c.Status.Plan != nil && slices.ContainsFunc(c.Status.Plan.Steps, func(s v1alpha1.PlanStep) bool {
			return s.Action == v1alpha1.ActionUnblockClient && strings.Contains(s.Consent, "node user is off for good")
		}) {
			return ""
		}
		return "nobody is asked to let it go"
	}
	k.until(offered)
	k.model.Change(func() { k.model.Blocked = nil })
	k.until(func(c *v1alpha1.Cluster) string {
		if !blocked() {
			return "somebody took it off the list, and it is not blocked again"
		}
		return offered(c)
	})
	k.passes(5)
	c := k.get("files")
	if !blocked() || c.Annotations[v1alpha1.AnnotationCephBlocked] == "" || offered(c) != "" {
		t.Fatal("it was let go before a person said so")
	}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationApprove, c.Status.Plan.Digest)
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string {
		if blocked() || c.Annotations[v1alpha1.AnnotationCephBlocked] != "" {
			return "it is not let go"
		}
		return ""
	})
	k.passes(5)
	if blocked() {
		t.Error("it was blocked again")
	}
}
