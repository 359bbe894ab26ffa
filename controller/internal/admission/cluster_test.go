package admission

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestCluster_record: people change what they like of a Cluster, but for the record of its Ceph cluster.
func TestCluster_record(t *testing.T) {
	admin := apitest.Client(t)
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "recorded", Annotations: map[string]string{"theirs": "a", v1alpha1.AnnotationCephServed: "u"}}}
	c.Spec.StorageType, c.Spec.Hosts = v1alpha1.StorageTypeCephFS, []v1alpha1.HostName{"n1"}
	must(t, admin.Create(t.Context(), c))
	t.Cleanup(func() { must(t, admin.Delete(context.WithoutCancel(t.Context()), c)) })
	install(t, admin, "base/cluster-admission.yaml")
	jane, ours := as(t, person), as(t, controller)
	const says = "only the controller changes them"
	update := func(as client.Client, change func(*v1alpha1.Cluster)) error {
		changed := c.DeepCopy()
		change(changed)
		return as.Update(t.Context(), changed, client.DryRunAll)
	}
	await(t, says, func() error { return update(jane, func(c *v1alpha1.Cluster) { c.Annotations = nil }) })
	for name, tt := range map[string]struct {
		change func(*v1alpha1.Cluster)
		denied bool
	}{
		"a record less":      {func(c *v1alpha1.Cluster) { delete(c.Annotations, v1alpha1.AnnotationCephServed) }, true},
		"a changed record":   {func(c *v1alpha1.Cluster) { c.Annotations[v1alpha1.AnnotationCephServed] = "v" }, true},
		"a record more":      {func(c *v1alpha1.Cluster) { c.Annotations[v1alpha1.AnnotationCephRemoved] = "u" }, true},
		"the spec":           {func(c *v1alpha1.Cluster) { c.Spec.Hosts = append(c.Spec.Hosts, "n2") }, false},
		"theirs":             {func(c *v1alpha1.Cluster) { delete(c.Annotations, "theirs") }, false},
		"the word of theirs": {func(c *v1alpha1.Cluster) { c.Annotations[v1alpha1.AnnotationRemove] = string(c.UID) }, false},
	} {
		if err := update(jane, tt.change); (err != nil) != tt.denied || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s by a person: %v", name, err)
		}
		if err := update(ours, tt.change); err != nil {
			t.Errorf("%s by the controller: %v", name, err)
		}
	}
}
