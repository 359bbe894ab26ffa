package csi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func pv(name, driver string, phase corev1.PersistentVolumePhase, deleted bool) corev1.PersistentVolume {
	out := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeStatus{Phase: phase}}
	if driver != "" {
		out.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "of-" + name}
	}
	if deleted {
		out.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return out
}

// TestVolumes: what counts in a pool is what its own drivers made, and what nobody can say of.
func TestVolumes(t *testing.T) {
	fuse, block := Name(v1alpha1.GlusterFuse), Name(v1alpha1.GlusterBlock)
	all := []corev1.PersistentVolume{
		pv("c", fuse, corev1.VolumeReleased, true), pv("b", fuse, corev1.VolumeBound, true), pv("a", block, corev1.VolumeBound, false), pv("x", "other.example.com", corev1.VolumeBound, false), pv("y", "", corev1.VolumeBound, false),
	}
	held := func(namespace, cluster string) *storagev1.CSIDriver {
		o := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationNamespace: namespace}}}
		if cluster != "" {
			o.Labels = map[string]string{v1alpha1.LabelGlusterCluster: cluster}
		}
		return o
	}
	a := gluster.Named{PersistentVolume: "a", Volume: "of-a", Block: true}
	b, c := gluster.Named{PersistentVolume: "b", Volume: "of-b"}, gluster.Named{PersistentVolume: "c", Volume: "of-c", Ending: true}
	for name, row := range map[string]struct {
		fuse, block *storagev1.CSIDriver
		want        []gluster.Named
	}{
		"nobody holds the drivers":   {nil, nil, []gluster.Named{a, b, c}},
		"this one holds one":         {held("ns", "pool"), held("ns", "other"), []gluster.Named{b, c}},
		"another namespace has both": {held("other", "pool"), held("other", "pool"), []gluster.Named{}},
		"somebody else made one":     {held("other", "pool"), held("", ""), []gluster.Named{a}},
	} {
		drivers := map[v1alpha1.GlusterDriver]*storagev1.CSIDriver{}
		if row.fuse != nil {
			drivers[v1alpha1.GlusterFuse] = row.fuse
		}
		if row.block != nil {
			drivers[v1alpha1.GlusterBlock] = row.block
		}
		if diff := cmp.Diff(row.want, Volumes("ns", "pool", drivers, all)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	named := &[]gluster.Named{a, b, c}
	for d, want := range map[v1alpha1.GlusterDriver][2]int{v1alpha1.GlusterFuse: {2, 1}, v1alpha1.GlusterBlock: {1, 1}} {
		if all, staying := Count(named, d); all != want[0] || staying != want[1] {
			t.Errorf("%s: %d, %d", d, all, staying)
		}
	}
	if all, staying := Count(nil, v1alpha1.GlusterFuse); all >= 0 || staying >= 0 {
		t.Errorf("nobody could list them: %d, %d", all, staying)
	}
}
