package admission

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
)

// csiController is the user of the CSI controllers and their sidecars.
const csiController = "system:serviceaccount:quarry-system:quarry-csi"

// TestLeases_ofCSIControllers: the right to write Leases is worth no more than those of shared groups and of the sidecars.
func TestLeases_ofCSIControllers(t *testing.T) {
	admin, theirs := apitest.Client(t), as(t, csiController)
	install(t, admin, "base/lease-admission.yaml")
	for _, name := range []string{"quarry-system", "elsewhere"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), ns)))
	}
	lease := func(namespace, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	const says = "the CSI controllers write the Leases of shared groups"
	await(t, says, func() error {
		return theirs.Create(t.Context(), lease("quarry-system", "quarry-controller"), client.DryRunAll)
	})
	for name, allowed := range map[string]bool{
		"iscsi-6d1f8f3e-0000-4000-8000-000000000001": true, "iscsi-quarry-storage": true, "lvm-quarry-storage": true,
		"external-attacher-leader-iscsi-quarry-storage": true, "external-resizer-nfs-quarry-storage": true, "external-snapshotter-leader-lvm-quarry-storage": true,
		"process-quarry-csi-lvm-74b7b9d74d-p2d6q": true, "process-quarry-controller-755bdb56f8-kvkmc": false, "process-other-1": false,
		"quarry-controller": false, "iscsi-x": false, "iscsi-6d1f8f3e-0000-4000-8000-000000000001-x": false, "kube-scheduler": false,
		"external-resizer-other-quarry-storage": false,
	} {
		l := lease("quarry-system", name)
		err := theirs.Create(t.Context(), l.DeepCopy(), client.DryRunAll)
		must(t, admin.Create(t.Context(), l))
		t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), l)) })
		l.Spec.HolderIdentity = new("me")
		update := theirs.Update(t.Context(), l.DeepCopy(), client.DryRunAll)
		if allowed {
			must(t, err)
			must(t, update)
			continue
		}
		denied(t, err, says)
		denied(t, update, says)
	}
	denied(t, theirs.Create(t.Context(), lease("elsewhere", "iscsi-6d1f8f3e-0000-4000-8000-000000000001"), client.DryRunAll), says)
}

// TestLeases_ofTheController: it writes and deletes the Leases of shared groups, and its own.
func TestLeases_ofTheController(t *testing.T) {
	admin, its := apitest.Client(t), as(t, controller)
	install(t, admin, "base/lease-admission.yaml")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quarry-system"}}
	must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), ns)))
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "quarry-system", Name: name}}
	}
	const says = "the controller writes the Leases of shared groups"
	await(t, says, func() error { return its.Create(t.Context(), lease("kube-scheduler"), client.DryRunAll) })
	for name, allowed := range map[string]bool{
		"iscsi-6d1f8f3e-0000-4000-8000-000000000002": true, "quarry-controller": true, "iscsi-quarry-storage": false,
		"process-quarry-controller-755bdb56f8-kvkmc": true, "process-quarry-csi-lvm-74b7b9d74d-p2d6q": false, "iscsi-x": false, "other": false,
	} {
		l := lease(name)
		err := its.Create(t.Context(), l.DeepCopy(), client.DryRunAll)
		must(t, admin.Create(t.Context(), l))
		t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), l)) })
		l.Spec.HolderIdentity = new("me")
		for _, err := range []error{err, its.Update(t.Context(), l.DeepCopy(), client.DryRunAll), its.Delete(t.Context(), l.DeepCopy(), client.DryRunAll)} {
			if allowed {
				must(t, err)
			} else {
				denied(t, err, says)
			}
		}
	}
}
