package frame_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quarry.storage/quarry/controller/internal/csi/frame"
)

// indexer takes the one index that is added.
type indexer struct{ index client.IndexerFunc }

func (i *indexer) IndexField(_ context.Context, _ client.Object, field string, f client.IndexerFunc) error {
	if field != frame.IndexHandle {
		return errors.New("unexpected field " + field)
	}
	i.index = f
	return nil
}

func persistent(name, driver, handle string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{}
	v.Name = name
	if driver != "" {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	}
	return v
}

func TestPersistentVolumes(t *testing.T) {
	i := &indexer{}
	if err := frame.IndexPersistentVolumes(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.PersistentVolume{}, frame.IndexHandle, i.index).WithObjects(
		persistent("c", "d", "h1"), persistent("b", "d", "h2"), persistent("a", "d", "h2"), persistent("e", "other", "h2"), persistent("f", "", ""),
		persistent("g", "d", "n/x/2"), persistent("h", "d", "n/x/1"), persistent("i", "d", "nn/x/1"), persistent("j", "other", "n/x/1"), persistent("k", "d", "n"),
	).Build()
	p := frame.PersistentVolumes{Reader: reader, Driver: "d"}
	names := func(list []*corev1.PersistentVolume, err error) (out []string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			out = append(out, v.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"c", "a", "b", "k", "h", "g", "i"}, names(p.All(t.Context()))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(p.With(t.Context(), "h2"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"h", "g"}, names(p.Below(t.Context(), "n"))); diff != "" {
		t.Error(diff)
	}
	if got := names(p.With(t.Context(), "h3")); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}
