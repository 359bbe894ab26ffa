package harbor

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestDeletionOf(t *testing.T) {
	witness := func(uid types.UID, edit ...func(*unstructured.Unstructured)) func(*v1alpha1.HarborCluster) *unstructured.Unstructured {
		return func(c *v1alpha1.HarborCluster) *unstructured.Unstructured {
			w := Witness(c)
			w.SetUID(uid)
			for _, e := range edit {
				e(w)
			}
			return w
		}
	}
	orphaned := func(w *unstructured.Unstructured) { w.SetOwnerReferences(nil) }
	removal := func(c *v1alpha1.HarborCluster) { c.Status.Removal = &v1alpha1.HarborRemoval{} }
	marked := func(finalizer string) func(*v1alpha1.HarborCluster) {
		return func(c *v1alpha1.HarborCluster) { c.Finalizers = append(c.Finalizers, finalizer) }
	}
	for name, tt := range map[string]struct {
		witness    func(*v1alpha1.HarborCluster) *unstructured.Unstructured
		edit       func(*v1alpha1.HarborCluster)
		foreground bool
		want       Deletion
	}{
		"the witness vouches":                                {witness("w"), nil, false, DeletionRemoves},
		"the witness has lost its owner":                     {witness("w", orphaned), nil, false, DeletionOrphans},
		"it has, after a removal is on record":               {witness("w", orphaned), removal, false, DeletionOrphans},
		"it has, in spite of a mark for removal":             {witness("w", orphaned), marked(metav1.FinalizerDeleteDependents), true, DeletionOrphans},
		"Kubernetes is about to orphan":                      {witness("w"), marked(metav1.FinalizerOrphanDependents), false, DeletionOrphans},
		"it is, after a removal is on record":                {nil, func(c *v1alpha1.HarborCluster) { removal(c); marked(metav1.FinalizerOrphanDependents)(c) }, false, DeletionOrphans},
		"another witness vouches":                            {witness("x"), nil, false, DeletionUnknown},
		"another witness has no owner":                       {witness("x", orphaned), nil, false, DeletionUnknown},
		"no witness":                                         {nil, nil, false, DeletionUnknown},
		"no witness was ever recorded":                       {witness(""), func(c *v1alpha1.HarborCluster) { c.Status.Witness = "" }, false, DeletionUnknown},
		"no witness, and a removal has begun":                {nil, removal, false, DeletionRemoves},
		"no witness, and Kubernetes removes the dependents":  {nil, marked(metav1.FinalizerDeleteDependents), false, DeletionRemoves},
		"no witness, and Kubernetes was seen to remove them": {nil, nil, true, DeletionRemoves},
	} {
		c := inCluster()
		c.Finalizers, c.Status.Witness = []string{v1alpha1.FinalizerHarbor}, "w"
		if tt.edit != nil {
			tt.edit(c)
		}
		var seen metav1.Object
		if tt.witness != nil {
			seen = tt.witness(c)
		}
		if got := DeletionOf(c, seen, tt.foreground); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestFormerly(t *testing.T) {
	c := inCluster()
	owner := func(edit func(*metav1.OwnerReference)) *unstructured.Unstructured {
		w := Witness(c)
		refs := w.GetOwnerReferences()
		edit(&refs[0])
		w.SetOwnerReferences(refs)
		return w
	}
	bare := Witness(c)
	bare.SetOwnerReferences(nil)
	foreign := bare.DeepCopy()
	foreign.SetLabels(nil)
	for name, tt := range map[string]struct {
		witness *unstructured.Unstructured
		want    bool
	}{
		"it vouches":                            {Witness(c), false},
		"it was orphaned":                       {bare, true},
		"it is of a HarborCluster that is gone": {owner(func(r *metav1.OwnerReference) { r.UID = "before" }), true},
		"it is of another HarborCluster":        {owner(func(r *metav1.OwnerReference) { r.UID, r.Name = "other", "other" }), false},
		"it is somebody else's":                 {owner(func(r *metav1.OwnerReference) { r.UID, r.Kind = "other", "Deployment" }), false},
		"it is a Secret of the user's":          {foreign, false},
	} {
		if got := Formerly(c, tt.witness); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
