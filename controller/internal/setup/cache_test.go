package setup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestStripVolume: whether a volume has to be there is decided on what the cache keeps.
func TestStripVolume(t *testing.T) {
	made := metav1.NewTime(time.Unix(1, 0))
	full := func(attributes map[string]string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", CreationTimestamp: made, DeletionTimestamp: &made}}
		v.Spec.StorageClassName, v.Spec.PersistentVolumeReclaimPolicy = "fast", corev1.PersistentVolumeReclaimRetain
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c"}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: "h", VolumeAttributes: attributes}
		v.Status.Phase = corev1.VolumeReleased
		return v
	}
	in := full(map[string]string{v1alpha1.AttributeGroupUUID: "G"})
	in.Annotations, in.Spec.ClaimRef.UID, in.Spec.MountOptions = map[string]string{"a": "b"}, "uid", []string{"ro"}
	in.Status.Message = "long"
	out, err := stripVolume(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(full(map[string]string{v1alpha1.AttributeGroupUUID: "G"}), out); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestStripRecorded: the CSI controllers decide on it whether a volume has to be there, and give no space away while one is lost.
func TestStripRecorded(t *testing.T) {
	made := metav1.NewTime(time.Unix(1, 0))
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	want := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", CreationTimestamp: made, DeletionTimestamp: &made}}
	want.Spec.Capacity, want.Spec.PersistentVolumeReclaimPolicy = size, corev1.PersistentVolumeReclaimRetain
	want.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c"}
	want.Spec.CSI = &corev1.CSIPersistentVolumeSource{
		Driver: v1alpha1.DriverLVM, VolumeHandle: "h", VolumeAttributes: map[string]string{v1alpha1.AttributeGroupUUID: "G"},
	}
	want.Status.Phase = corev1.VolumeReleased
	in := want.DeepCopy()
	in.Annotations, in.Spec.ClaimRef.UID, in.Spec.MountOptions = map[string]string{"a": "b"}, "uid", []string{"ro"}
	in.Spec.CSI.FSType, in.Spec.StorageClassName, in.Status.Message = "xfs", "fast", "long"
	out, err := stripRecorded(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, out); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestStripClaim: where a copy is made is decided on what the cache keeps.
func TestStripClaim(t *testing.T) {
	made := metav1.NewTime(time.Unix(1, 0))
	want := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c", UID: "u", ResourceVersion: "7", CreationTimestamp: made, DeletionTimestamp: &made,
		Labels: map[string]string{v1alpha1.LabelReserved: "true"},
		Annotations: map[string]string{
			pin.AnnotationSelectedNode: "n1", v1alpha1.AnnotationSourceNode: "u/n1", corev1.BetaStorageClassAnnotation: "fast",
		},
	}}
	want.Spec.StorageClassName, want.Spec.VolumeName = new("fast"), "pv"
	want.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "s"}
	want.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "s"}
	want.Status.Phase = corev1.ClaimBound
	in := want.DeepCopy()
	in.Labels["app"], in.Annotations["a"], in.Finalizers = "db", "b", nil
	in.OwnerReferences = []metav1.OwnerReference{{Name: "o"}}
	in.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	in.Status.AccessModes = in.Spec.AccessModes
	out, err := stripClaim(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, out); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
