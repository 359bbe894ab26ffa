package iscsi

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestPerform_removeGroup: that the group is gone goes on record with the very turn that removed it, even if somebody writes to the Iscsi meanwhile, and the record of the writer goes then.
func TestPerform_removeGroup(t *testing.T) {
	s := keyed(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "quarry-system", Name: san.LeasePrefix + uid}}
	s.must(s.api.Create(t.Context(), lease))
	step := s.step("", v1alpha1.ActionRemoveSharedGroup)
	step.Ref.UUID = "group"
	wantError(t, s.perform(step), "is not being deleted", true)
	edit(s, &v1alpha1.Iscsi{}, "san", func(i *v1alpha1.Iscsi) { i.Finalizers = []string{v1alpha1.FinalizerTeardown} })
	s.must(s.api.Delete(t.Context(), &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "san"}}))
	s.removing = func() {
		edit(s, &v1alpha1.Iscsi{}, "san", func(i *v1alpha1.Iscsi) { i.Annotations = map[string]string{"somebody": "writes"} })
	}
	s.must(s.perform(step))
	i := &v1alpha1.Iscsi{}
	s.must(s.api.Get(t.Context(), types.NamespacedName{Name: "san"}, i))
	if i.Annotations[v1alpha1.AnnotationGroupRemoved] != "group" || i.Annotations["somebody"] != "writes" {
		t.Errorf("%v", i.Annotations)
	}
	if err := s.api.Get(t.Context(), types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}, lease); !apierrors.IsNotFound(err) {
		t.Errorf("the record of the writer: %v", err)
	}
}
