package class

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const provisioner = "test.quarry.storage"

func cluster(change func(s *v1alpha1.StorageClassSpec)) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	if change != nil {
		c.Spec.StorageClass = &v1alpha1.StorageClassSpec{}
		change(c.Spec.StorageClass)
	}
	return c
}

func wish() Wish {
	return Wish{
		Parameters: map[string]string{"a": "b"}, Binding: storagev1.VolumeBindingWaitForFirstConsumer,
	}
}

func TestWanted(t *testing.T) {
	policy, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	want := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pool", Labels: map[string]string{"quarry.storage/cluster": "pool"}, Annotations: map[string]string{annotationDefault: "false"},
		},
		Provisioner: provisioner, Parameters: map[string]string{"a": "b"},
		ReclaimPolicy: &policy, AllowVolumeExpansion: new(true), VolumeBindingMode: &binding,
	}
	if d := cmp.Diff(want, Wanted(cluster(nil), provisioner, wish())); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	got := Wanted(cluster(func(s *v1alpha1.StorageClassSpec) {
		s.Default, s.ReclaimPolicy = true, corev1.PersistentVolumeReclaimRetain
	}), provisioner, wish())
	if got.Annotations[annotationDefault] != "true" || *got.ReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("%+v", got)
	}
	share := Wanted(&v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: "files"}}, provisioner, wish())
	if share.Labels["quarry.storage/nfs"] != "files" || share.Labels["quarry.storage/cluster"] != "" {
		t.Errorf("labels %v", share.Labels)
	}
}

func TestOurs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(sc *storagev1.StorageClass)
		want   bool
	}{
		"as we made it":         {func(*storagev1.StorageClass) {}, true},
		"with other parameters": {func(sc *storagev1.StorageClass) { sc.Parameters = nil }, true},
		"without our label":     {func(sc *storagev1.StorageClass) { sc.Labels = nil }, false},
		"of another storage":    {func(sc *storagev1.StorageClass) { sc.Labels[v1alpha1.LabelOf(v1alpha1.KindCluster)] = "other" }, false},
		"of an Nfs of the name": {func(sc *storagev1.StorageClass) {
			sc.Labels = map[string]string{v1alpha1.LabelOf(v1alpha1.KindNfs): "pool"}
		}, false},
		"of a driver of somebody else's": {func(sc *storagev1.StorageClass) { sc.Provisioner = "example.com/x" }, false},
	} {
		sc := Wanted(cluster(nil), provisioner, wish())
		c.change(sc)
		if got := Ours(sc, cluster(nil), provisioner); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestSame(t *testing.T) {
	immediate, retain := storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimRetain
	for name, c := range map[string]struct {
		change      func(sc *storagev1.StorageClass)
		same, fixed bool
	}{
		"as it should be":       {func(*storagev1.StorageClass) {}, true, true},
		"labels of others":      {func(sc *storagev1.StorageClass) { sc.Labels["x"] = "y" }, true, true},
		"annotations of others": {func(sc *storagev1.StorageClass) { sc.Annotations = map[string]string{"x": "y"} }, true, true},
		"our label is gone":     {func(sc *storagev1.StorageClass) { sc.Labels = nil }, false, true},
		"somebody's default":    {func(sc *storagev1.StorageClass) { sc.Annotations = map[string]string{annotationDefault: "true"} }, false, true},
		"default is not said":   {func(sc *storagev1.StorageClass) { sc.Annotations = nil }, true, true},
		"no default, in words":  {func(sc *storagev1.StorageClass) { sc.Annotations = map[string]string{annotationDefault: "false"} }, true, true},
		"mount options":         {func(sc *storagev1.StorageClass) { sc.MountOptions = []string{"noatime"} }, true, true},
		"no expansion":          {func(sc *storagev1.StorageClass) { sc.AllowVolumeExpansion = new(false) }, false, true},
		"expansion is not said": {func(sc *storagev1.StorageClass) { sc.AllowVolumeExpansion = nil }, false, true},
		"other parameters":      {func(sc *storagev1.StorageClass) { sc.Parameters = map[string]string{"a": "c"} }, false, false},
		"other provisioner":     {func(sc *storagev1.StorageClass) { sc.Provisioner = "x" }, false, false},
		"other policy":          {func(sc *storagev1.StorageClass) { sc.ReclaimPolicy = &retain }, false, false},
		"policy is not said":    {func(sc *storagev1.StorageClass) { sc.ReclaimPolicy = nil }, false, false},
		"other binding":         {func(sc *storagev1.StorageClass) { sc.VolumeBindingMode = &immediate }, false, false},
		"binding is not said":   {func(sc *storagev1.StorageClass) { sc.VolumeBindingMode = nil }, false, false},
		"options of an earlier spec": {func(sc *storagev1.StorageClass) {
			sc.MountOptions, sc.Annotations[v1alpha1.AnnotationMountOptions] = []string{"noatime"}, "noatime"
		}, false, true},
	} {
		want := Wanted(cluster(nil), provisioner, wish())
		have := want.DeepCopy()
		c.change(have)
		if got := Same(have, want); got != c.same {
			t.Errorf("%s: same %t", name, got)
		}
		if got := SameFixed(have, want); got != c.fixed {
			t.Errorf("%s: same in what never changes %t", name, got)
		}
	}
}

// TestSame_mountOptions: those of the spec replace a person's.
func TestSame_mountOptions(t *testing.T) {
	w := wish()
	w.MountOptions = []string{"noatime", "discard"}
	want := Wanted(cluster(nil), provisioner, w)
	have := want.DeepCopy()
	if !Same(have, want) || want.Annotations[v1alpha1.AnnotationMountOptions] != "noatime,discard" {
		t.Errorf("%+v", want)
	}
	have.MountOptions = []string{"noatime"}
	if Same(have, want) || !SameFixed(have, want) {
		t.Error("the options of a person stay")
	}
	if Same(Wanted(cluster(nil), provisioner, wish()), want) {
		t.Error("a class without the options is as it should be")
	}
}
