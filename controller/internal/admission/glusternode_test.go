package admission

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	serverID = "0a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e"
	poolID   = "1a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e"
)

// glusterPolicies installs the policies of GlusterNodes, and returns clients of a person and of the controller.
func glusterPolicies(t *testing.T) (jane, ours client.Client) {
	t.Helper()
	admin := apitest.Client(t)
	// It runs once they are deleted.
	t.Cleanup(func() { glusterCalm(t, admin) })
	install(t, admin, "base/gluster-admission.yaml")
	probe := storedNode(t, "probe")
	await(t, "cannot be taken back", func() error { return admin.Delete(t.Context(), probe, client.DryRunAll) })
	await(t, "spec.lost must be empty", func() error {
		changed := probe.DeepCopy()
		changed.Spec.Lost = "x"
		return admin.Update(t.Context(), changed, client.DryRunAll)
	})
	return as(t, person), as(t, controller)
}

// glusterCalm waits until nothing of these policies is in force.
func glusterCalm(t *testing.T, admin client.Client) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	n := glusterNode()
	n.Name = "calm"
	n.Spec.Peer, n.Spec.Pool = serverID, poolID
	n.Spec.Move = &v1alpha1.GlusterMove{Brick: "b", Volume: "v", Path: "/b", Asked: metav1.Now()}
	must(t, as(t, controller).Create(ctx, n))
	changed := n.DeepCopy()
	changed.Spec.Move.Brick = "another"
	calm(t, "quarry-glusternode-spec", func() error { return admin.Update(ctx, changed.DeepCopy(), client.DryRunAll) })
	calm(t, "quarry-glusternode-deletion", func() error { return admin.Delete(ctx, n.DeepCopy(), client.DryRunAll) })
	must(t, admin.Delete(ctx, n))
}

// storedNode makes a GlusterNode with all records, until the end of the test.
func storedNode(t *testing.T, name string) *v1alpha1.GlusterNode {
	t.Helper()
	ours := as(t, controller)
	n := glusterNode()
	n.Name, n.Finalizers = name, []string{v1alpha1.FinalizerGlusterNode}
	n.Spec.Peer, n.Spec.Pool = serverID, poolID
	n.Spec.Move = &v1alpha1.GlusterMove{Brick: "b", Volume: "v", Path: "/b", Asked: metav1.Now()}
	must(t, ours.Create(t.Context(), n))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		have := &v1alpha1.GlusterNode{}
		if err := ours.Get(ctx, client.ObjectKeyFromObject(n), have); client.IgnoreNotFound(err) != nil || err != nil {
			must(t, client.IgnoreNotFound(err))
			return
		}
		have.Finalizers = nil
		must(t, ours.Update(ctx, have))
		must(t, client.IgnoreNotFound(ours.Delete(ctx, have)))
	})
	return n
}

// TestGlusterNode_deletion: to delete one has its server emptied and removed, so a person has to mean it (G7).
func TestGlusterNode_deletion(t *testing.T) {
	jane, ours := glusterPolicies(t)
	n := storedNode(t, "one")
	denied(t, jane.Delete(t.Context(), n), "cannot be taken back", "quarry.storage/remove="+string(n.UID))
	denied(t, as(t, garbageCollector).Delete(t.Context(), n), "cannot be taken back")
	n.Annotations = map[string]string{"quarry.storage/remove": "another"}
	must(t, jane.Update(t.Context(), n))
	denied(t, jane.Delete(t.Context(), n), "cannot be taken back")
	must(t, ours.Delete(t.Context(), n.DeepCopy(), client.DryRunAll))
	must(t, as(t, "system:serviceaccount:kube-system:namespace-controller").Delete(t.Context(), n.DeepCopy(), client.DryRunAll))
	n.Annotations["quarry.storage/remove"] = string(n.UID)
	must(t, jane.Update(t.Context(), n))
	must(t, jane.Delete(t.Context(), n))
	must(t, jane.Delete(t.Context(), n))

	external := glusterNode()
	external.Name, external.Spec.Storage, external.Spec.External = "external", nil, &v1alpha1.GlusterExternal{Address: "a"}
	must(t, jane.Create(t.Context(), external))
	must(t, jane.Delete(t.Context(), external))
}

// TestGlusterNode_records: only the controller changes what is on record, and the word that a node is lost counts for one object and cannot be taken back (G3).
func TestGlusterNode_records(t *testing.T) {
	jane, ours := glusterPolicies(t)
	for name, row := range map[string]struct {
		edit func(*v1alpha1.GlusterNode)
		want string
	}{
		"the data are said to be whole": {func(n *v1alpha1.GlusterNode) { n.Spec.Move.Whole = true }, "spec.move is the record"},
		"another successor":             {func(n *v1alpha1.GlusterNode) { n.Spec.Move.Successor = "x" }, "spec.move is the record"},
		"it left the pool": {func(n *v1alpha1.GlusterNode) {
			n.Annotations = map[string]string{v1alpha1.AnnotationPeerLeft: string(n.UID)}
		}, "peer-left is the record"},
		"lost, by another's UID": {func(n *v1alpha1.GlusterNode) { n.Spec.Lost = "x" }, "spec.lost must be empty, or "},
		"maintenance":            {func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = v1alpha1.GlusterDisabled }, ""},
		"lost":                   {func(n *v1alpha1.GlusterNode) { n.Spec.Lost = string(n.UID) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := storedNode(t, "two")
			row.edit(n)
			verdict(t, jane.Update(t.Context(), n), row.want)
		})
	}
	n := storedNode(t, "three")
	whole := n.DeepCopy()
	whole.Spec.Move.Whole = true
	must(t, ours.Update(t.Context(), whole))
	must(t, ours.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	n.Status.Flags, n.Status.State = &v1alpha1.MemberFlags{IsUp: true}, "online"
	must(t, ours.Status().Update(t.Context(), n))
	n.Spec.Lost = string(n.UID)
	denied(t, jane.Update(t.Context(), n), "the node is online")
	must(t, ours.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	n.Status.Flags.IsUp = false
	must(t, ours.Status().Update(t.Context(), n))
	n.Spec.Lost = string(n.UID)
	must(t, jane.Update(t.Context(), n))
	must(t, ours.Delete(t.Context(), n))
	must(t, ours.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	n.Spec.Lost = ""
	denied(t, jane.Update(t.Context(), n), "cannot be taken back")

	made := glusterNode()
	made.Name, made.Spec.Lost = "four", "x"
	denied(t, jane.Create(t.Context(), made), "must be empty when a GlusterNode is made")
	made.Spec.Lost, made.Spec.Peer, made.Spec.Pool = "", serverID, poolID
	must(t, jane.Create(t.Context(), made, client.DryRunAll))
}

// TestClaim_deletionOfGluster: the controller deletes the claims that it made for a GlusterCluster, and no others in the namespace.
func TestClaim_deletionOfGluster(t *testing.T) {
	_, ours := claimPolicy(t)
	const cluster, part, node, peer = v1alpha1.LabelGlusterCluster, v1alpha1.LabelGlusterPart, v1alpha1.LabelGlusterNode, v1alpha1.AnnotationPeer
	for name, row := range map[string]struct {
		labels, annotations map[string]string
		allowed             bool
	}{
		"pool-etcd-0":       {map[string]string{cluster: "pool", part: "etcd"}, nil, true},
		"pool-east-1":       {map[string]string{cluster: "pool", part: "glusterd2", node: "pool-east-1"}, map[string]string{peer: serverID}, true},
		"pool-east-1-state": {map[string]string{cluster: "pool", part: "glusterd2", node: "pool-east-1"}, map[string]string{peer: serverID}, true},
		"pool-etcd-a":       {map[string]string{cluster: "pool", part: "etcd"}, nil, false},
		"theirs":            {map[string]string{cluster: "pool", part: "glusterd2", node: "pool-east-1"}, map[string]string{peer: serverID}, false},
		"pool-east-2":       {map[string]string{cluster: "pool", part: "glusterd2", node: "pool-east-2"}, nil, false},
		"plain":             {nil, nil, false},
	} {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: row.labels, Annotations: row.annotations}}
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		must(t, apitest.Client(t).Create(t.Context(), c))
		if err := ours.Delete(t.Context(), c.DeepCopy(), client.DryRunAll); (err == nil) != row.allowed {
			t.Errorf("%s: %v", name, err)
		}
		must(t, apitest.Client(t).Delete(t.Context(), c))
	}
}
