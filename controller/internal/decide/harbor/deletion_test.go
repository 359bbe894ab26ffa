package harbor

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestDeletionOf(t *testing.T) {
	witness := func(uid types.UID, edit ...func(*v1alpha1.HarborWitness)) func(*v1alpha1.HarborCluster) *v1alpha1.HarborWitness {
		return func(c *v1alpha1.HarborCluster) *v1alpha1.HarborWitness {
			w := Witness(c)
			w.SetUID(uid)
			for _, e := range edit {
				e(w)
			}
			return w
		}
	}
	orphaned := func(w *v1alpha1.HarborWitness) { w.SetOwnerReferences(nil) }
	removal := func(c *v1alpha1.HarborCluster) { c.Status.Removal = &v1alpha1.HarborRemoval{} }
	marked := func(finalizer string) func(*v1alpha1.HarborCluster) {
		return func(c *v1alpha1.HarborCluster) { c.Finalizers = append(c.Finalizers, finalizer) }
	}
	for name, tt := range map[string]struct {
		witness func(*v1alpha1.HarborCluster) *v1alpha1.HarborWitness
		edit    func(*v1alpha1.HarborCluster)
		want    Deletion
		// strange is true if Kubernetes did not know the kind of the witness yet.
		strange bool
	}{
		"the witness vouches":                               {witness("w"), nil, DeletionRemoves, false},
		"the witness has lost its owner":                    {witness("w", orphaned), nil, DeletionOrphans, false},
		"it has, after a removal is on record":              {witness("w", orphaned), removal, DeletionOrphans, false},
		"it has, in spite of a mark for removal":            {witness("w", orphaned), marked(metav1.FinalizerDeleteDependents), DeletionOrphans, false},
		"Kubernetes is about to orphan":                     {witness("w"), marked(metav1.FinalizerOrphanDependents), DeletionOrphans, false},
		"it is, after a removal is on record":               {nil, func(c *v1alpha1.HarborCluster) { removal(c); marked(metav1.FinalizerOrphanDependents)(c) }, DeletionOrphans, false},
		"it vouches, and Kubernetes has begun to remove it": {witness("w", func(w *v1alpha1.HarborWitness) { w.DeletionTimestamp = &metav1.Time{} }), nil, DeletionRemoves, false},
		"it vouches, and Kubernetes did not know its kind":  {witness("w"), nil, DeletionUnknown, true},
		"it does not, and Kubernetes did not know its kind": {witness("w", orphaned), nil, DeletionOrphans, true},
		"a removal is on record, and Kubernetes did not":    {witness("w"), removal, DeletionRemoves, true},
		"another witness vouches":                           {witness("x"), nil, DeletionUnknown, false},
		"another witness has no owner":                      {witness("x", orphaned), nil, DeletionUnknown, false},
		"no witness":                                        {nil, nil, DeletionUnknown, false},
		"no witness was ever recorded":                      {witness(""), func(c *v1alpha1.HarborCluster) { c.Status.Witness = "" }, DeletionUnknown, false},
		"no witness, and a removal has begun":               {nil, removal, DeletionRemoves, false},
		"no witness, and Kubernetes removes the dependents": {nil, marked(metav1.FinalizerDeleteDependents), DeletionRemoves, false},
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
		if got := DeletionOf(c, seen, !tt.strange); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
