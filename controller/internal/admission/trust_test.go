package admission

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestNode_theLabelOnly: the right to patch Nodes is worth no more than the one label.
func TestNode_theLabelOnly(t *testing.T) {
	admin, ours := apitest.Client(t), as(t, controller)
	install(t, admin, "base/node-admission.yaml")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n-trust", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"theirs": "a"},
	}}
	must(t, admin.Create(t.Context(), n))
	t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), n)) })
	forbidden := map[string]func(*corev1.Node){
		"a taint":                               func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}} },
		"unschedulable":                         func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"a label more":                          func(n *corev1.Node) { n.Labels["x"] = "y" },
		"another value":                         func(n *corev1.Node) { n.Labels["zone"] = "b" },
		"a label less":                          func(n *corev1.Node) { delete(n.Labels, "zone") },
		"an annotation":                         func(n *corev1.Node) { n.Annotations["x"] = "y" },
		"no annotation":                         func(n *corev1.Node) { n.Annotations = nil },
		"a finalizer":                           func(n *corev1.Node) { n.Finalizers = []string{"example.com/x"} },
		"a label like ours":                     func(n *corev1.Node) { n.Labels["quarry.storage/other"] = "y" },
		"another value of an initiator's label": func(n *corev1.Node) { n.Labels[v1alpha1.LabelInitiatorPrefix+"san"] = "false" },
	}
	await(t, "changes nothing in the spec", func() error {
		changed := n.DeepCopy()
		changed.Spec.Unschedulable = true
		return ours.Update(t.Context(), changed, client.DryRunAll)
	})
	for name, change := range forbidden {
		changed := n.DeepCopy()
		change(changed)
		if err := ours.Update(t.Context(), changed.DeepCopy(), client.DryRunAll); err == nil {
			t.Errorf("%s is allowed", name)
		} else {
			denied(t, err, "the controller changes no")
		}
		must(t, as(t, person).Update(t.Context(), changed, client.DryRunAll))
	}
	n.Labels[v1alpha1.LabelStorageType] = "lvm"
	must(t, ours.Update(t.Context(), n))
	delete(n.Labels, v1alpha1.LabelStorageType)
	must(t, ours.Update(t.Context(), n))
	n.Labels[v1alpha1.LabelInitiatorPrefix+"san"] = "true"
	must(t, ours.Update(t.Context(), n))
	delete(n.Labels, v1alpha1.LabelInitiatorPrefix+"san")
	must(t, ours.Update(t.Context(), n))
}

// grant gives a user a role on the kinds of ours, until the end of the test.
func grant(t *testing.T, user string, verbs ...string) client.Client {
	t.Helper()
	admin := apitest.Client(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "trust-" + user}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.Group}, Resources: []string{"*"}, Verbs: verbs,
	}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "trust-" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, o := range []client.Object{role, binding} {
		must(t, admin.Create(t.Context(), o))
		t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), o)) })
	}
	cfg := apitest.Config(t)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(cfg, client.Options{Scheme: apitest.Scheme(t)})
	must(t, err)
	return c
}

// TestApproval_isNotEditing: with the optional policy, whoever may edit a Cluster approves nothing; whoever approves, does.
func TestApproval_isNotEditing(t *testing.T) {
	admin := apitest.Client(t)
	editor, approver := grant(t, "editor", "get", "update", "create"), grant(t, "approver", "get", "update", "approve")
	install(t, admin, "optional/approval.yaml")
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "trust", Annotations: map[string]string{"theirs": "a"}}}
	c.Spec.StorageType, c.Spec.Hosts, c.Spec.Approval = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}, v1alpha1.ApprovalManual
	must(t, admin.Create(t.Context(), c))
	t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), c)) })
	i := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "trust-san", Annotations: map[string]string{"theirs": "a"}}}
	i.Spec.IQN, i.Spec.Targets, i.Spec.Initiators = "iqn.2026-01.org.example:trust", []v1alpha1.PortalAddress{"10.0.0.1"}, []v1alpha1.HostName{"n1"}
	i.Spec.Approval = v1alpha1.ApprovalManual
	must(t, admin.Create(t.Context(), i))
	t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), i)) })
	n := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: "trust-share"}}
	n.Spec.Server, n.Spec.Path = "10.0.0.1", "/export/trust"
	must(t, admin.Create(t.Context(), n))
	t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), n)) })
	m := create(t, as(t, controller), "trust.n1")
	const says = "this is an approval"
	await(t, says, func() error {
		changed := c.DeepCopy()
		changed.Annotations[v1alpha1.AnnotationApprove] = "digest"
		return editor.Update(t.Context(), changed, client.DryRunAll)
	})
	for name, change := range map[string]func() client.Object{
		"an approval":  func() client.Object { o := c.DeepCopy(); o.Annotations[v1alpha1.AnnotationApprove] = "d"; return o },
		"no approvals": func() client.Object { o := c.DeepCopy(); o.Spec.Approval = ""; return o },
		"an approval of an Iscsi": func() client.Object {
			o := i.DeepCopy()
			o.Annotations[v1alpha1.AnnotationApprove] = "d"
			return o
		},
		"no approvals of an Iscsi": func() client.Object {
			o := i.DeepCopy()
			o.Spec.Approval = v1alpha1.ApprovalAutomatic
			return o
		},
		// No step of an Nfs needs approval: what a person says of it is that its volumes may be left where they are.
		"a removal of an Nfs": func() client.Object {
			o := n.DeepCopy()
			o.Annotations = map[string]string{v1alpha1.AnnotationRemove: string(n.UID)}
			return o
		},
		"a removal": func() client.Object {
			o := m.DeepCopy()
			o.Annotations = map[string]string{v1alpha1.AnnotationRemove: string(m.UID)}
			return o
		},
		"approved with": func() client.Object {
			o := m.DeepCopy()
			o.Annotations = map[string]string{v1alpha1.AnnotationApprovedWith: "d"}
			return o
		},
		"a lost node": func() client.Object { o := m.DeepCopy(); o.Spec.Lost = string(m.UID); return o },
	} {
		if err := editor.Update(t.Context(), change(), client.DryRunAll); err == nil {
			t.Errorf("%s is allowed to an editor", name)
		} else {
			denied(t, err, says)
		}
		for who, c := range map[string]client.Client{"an approver": approver, "the controller": as(t, controller)} {
			if err := c.Update(t.Context(), change(), client.DryRunAll); err != nil {
				t.Errorf("%s is denied to %s: %v", name, who, err)
			}
		}
	}
	made := c.DeepCopy()
	made.ObjectMeta = metav1.ObjectMeta{Name: "trust-2", Annotations: map[string]string{v1alpha1.AnnotationApprove: "d"}}
	denied(t, editor.Create(t.Context(), made, client.DryRunAll), says)

	// Editing, and taking an approval back, is not approving.
	edited := c.DeepCopy()
	edited.Spec.Hosts = append(edited.Spec.Hosts, "n2")
	must(t, editor.Update(t.Context(), edited, client.DryRunAll))
	c.Annotations[v1alpha1.AnnotationApprove] = "d"
	must(t, approver.Update(t.Context(), c))
	edited = c.DeepCopy()
	edited.Annotations["theirs"] = "b"
	must(t, editor.Update(t.Context(), edited, client.DryRunAll))
	delete(edited.Annotations, v1alpha1.AnnotationApprove)
	must(t, editor.Update(t.Context(), edited, client.DryRunAll))
}
