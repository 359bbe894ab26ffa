package setup

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// copiesArePinned has the controller bring a clone and a restore to a node, with its own rights and under its own policy. Nothing of it is
// left: a volume would hold the Cluster of the class.
func copiesArePinned(t *testing.T, admin client.Client, class, node string) {
	t.Helper()
	snapshot := schema.GroupVersionKind{Group: pin.SnapshotGroup, Version: "v1", Kind: string(pin.KindSnapshot)}
	content := snapshot.GroupVersion().WithKind("VolumeSnapshotContent")
	t.Run("copies", func(t *testing.T) {
		apitest.Define(t, admin, "volumesnapshotcontents", content)
		apitest.DefineNamespaced(t, admin, "volumesnapshots", snapshot)
		origin := claimOf(class, "origin", nil)
		madeFor(t, admin, volumeOf(t, origin, node))
		madeFor(t, admin, origin)
		origin.Spec.VolumeName = "pv-origin"
		write(t, admin.Update(t.Context(), origin))
		origin.Status.Phase = corev1.ClaimBound
		write(t, admin.Status().Update(t.Context(), origin))
		clone := claimOf(class, "clone", &corev1.TypedLocalObjectReference{Kind: string(pin.KindClaim), Name: "origin"})
		madeFor(t, admin, clone)
		restore := claimOf(class, "restore",
			&corev1.TypedLocalObjectReference{APIGroup: new(pin.SnapshotGroup), Kind: string(pin.KindSnapshot), Name: "kept"})
		madeFor(t, admin, restore)
		s := object(snapshot, "kept", map[string]any{"status": map[string]any{"readyToUse": true, "boundVolumeSnapshotContentName": "content"}})
		s.SetNamespace("default")
		madeFor(t, admin, s)
		madeFor(t, admin, object(content, "content", map[string]any{
			"spec": map[string]any{
				"driver": v1alpha1.DriverLVM, "volumeSnapshotRef": map[string]any{"namespace": "default", "name": "kept", "uid": string(s.GetUID())},
			},
			"status": map[string]any{"snapshotHandle": handleOf(t, node, volumeid.Snapshot("kept"))},
		}))
		for _, c := range []*corev1.PersistentVolumeClaim{clone, restore} {
			await(t, "claim "+c.Name+" is brought to the node", func() string {
				if err := admin.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
					return err.Error()
				}
				if c.Annotations[pin.AnnotationSelectedNode] != node {
					return "not yet"
				}
				return ""
			})
		}
	})
}

func object(kind schema.GroupVersionKind, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(kind)
	o.SetName(name)
	return o
}

func claimOf(class, name string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.StorageClassName, c.Spec.DataSource = &class, source
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

func volumeOf(t *testing.T, c *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolume {
	t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + c.Name}}
	v.Spec.StorageClassName, v.Spec.AccessModes, v.Spec.Capacity = *c.Spec.StorageClassName, c.Spec.AccessModes, c.Spec.Resources.Requests
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: handleOf(t, node, volumeid.Name(c.Name))}
	return v
}

func handleOf(t *testing.T, node, name string) string {
	t.Helper()
	id, err := volumeid.New(node, "quarry-pool", name)
	write(t, err)
	return id.String()
}

// madeFor makes an object until the end of the test. Nobody here takes the finalizers of Kubernetes off.
func madeFor(t *testing.T, admin client.Client, o client.Object) {
	t.Helper()
	write(t, admin.Create(t.Context(), o))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		write(t, admin.Get(ctx, client.ObjectKeyFromObject(o), o))
		o.SetFinalizers(nil)
		write(t, admin.Update(ctx, o))
		write(t, client.IgnoreNotFound(admin.Delete(ctx, o)))
	})
}

func write(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
