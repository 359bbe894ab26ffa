package pin

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const (
	namespace = "default"
	class     = "fast"
)

// drivers are those of local disks, as the controller has them.
func drivers() []backend.Driver { return []backend.Driver{lvm.Profile().Driver} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create makes an object until the end of the test. Nobody here takes the finalizers of Kubernetes off.
func create[T client.Object](t *testing.T, c client.Client, o T) T {
	t.Helper()
	must(t, c.Create(t.Context(), o))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
			if err == nil && len(o.GetFinalizers()) > 0 {
				o.SetFinalizers(nil)
				err = c.Update(ctx, o)
			}
			if err == nil {
				err = c.Delete(ctx, o, client.GracePeriodSeconds(0))
			}
			if client.IgnoreNotFound(err) == nil && err != nil || time.Now().After(end) {
				return
			}
		}
	})
	return o
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func newClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: v1alpha1.DriverLVM,
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

func newClaim(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.StorageClassName = new(class)
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, f := range change {
		f(c)
	}
	return c
}

// from gives a claim a source.
func from(kind pin.Kind, name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: string(kind), Name: name}
		if kind == pin.KindSnapshot {
			c.Spec.DataSource.APIGroup = new(pin.SnapshotGroup)
		}
	}
}

// handleOn is the handle of a volume, or of a snapshot, on a node.
func handleOn(t *testing.T, node, name string) string {
	t.Helper()
	id, err := volumeid.New(node, "quarry-fast", name)
	must(t, err)
	return id.String()
}

// newVolume is the PersistentVolume of a claim, on a node.
func newVolume(t *testing.T, claim, node string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + claim}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.StorageClassName = class
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{
		Driver: v1alpha1.DriverLVM, VolumeHandle: handleOn(t, node, volumeid.Name(claim)),
	}
	return v
}

// bind does what the provisioner and the controller of PersistentVolumes do, but for making the volume.
func bind(t *testing.T, c client.Client, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	claim.Spec.VolumeName = "pv-" + claim.Name
	must(t, c.Update(t.Context(), claim))
	claim.Status.Phase = corev1.ClaimBound
	must(t, c.Status().Update(t.Context(), claim))
}

// origin makes a bound claim with its volume on a node.
func origin(t *testing.T, c client.Client, name, node string) {
	t.Helper()
	create(t, c, newVolume(t, name, node))
	bind(t, c, create(t, c, newClaim(name)))
}

// newSnapshot is a VolumeSnapshot that says of itself whether it can be used.
func newSnapshot(name string, ready bool) *unstructured.Unstructured {
	s := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"readyToUse": ready, "boundVolumeSnapshotContentName": "content-" + name},
	}}
	s.SetGroupVersionKind(snapshotKind)
	s.SetNamespace(namespace)
	s.SetName(name)
	return s
}

// newContent is the content of a snapshot, on a node.
func newContent(t *testing.T, of *unstructured.Unstructured, node string) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"driver":            v1alpha1.DriverLVM,
			"volumeSnapshotRef": map[string]any{"namespace": namespace, "name": of.GetName(), "uid": string(of.GetUID())},
		},
		"status": map[string]any{"snapshotHandle": handleOn(t, node, volumeid.Snapshot(of.GetName()))},
	}}
	c.SetGroupVersionKind(contentKind)
	c.SetName("content-" + of.GetName())
	return c
}

// look looks at a claim once.
func look(t *testing.T, r *Reconciler, name string) ctrl.Result {
	t.Helper()
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}})
	must(t, err)
	return result
}

// read returns a claim as it is.
func read(t *testing.T, c client.Client, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	o := &corev1.PersistentVolumeClaim{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o))
	return o
}

// selected checks the node of a claim; empty for none.
func selected(t *testing.T, c client.Client, name, want string) *corev1.PersistentVolumeClaim {
	t.Helper()
	o := read(t, c, name)
	if got, ok := o.Annotations[pin.AnnotationSelectedNode]; got != want || ok != (want != "") {
		t.Errorf("node of claim %s is %q, want %q", name, got, want)
	}
	return o
}
