package statefulcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// history returns the ControllerRevisions of the namespace, the newest first.
func (s *suite) history() []appsv1.ControllerRevision {
	s.t.Helper()
	var list appsv1.ControllerRevisionList
	if err := s.client.List(context.Background(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(b.Revision - a.Revision) })
	return list.Items
}

// roll changes the image and waits until all replicas have it.
func (s *suite) roll(image string) *v1alpha1.StatefulCluster {
	s.t.Helper()
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith(image) })
	return s.settle("all have "+image, func(c *v1alpha1.StatefulCluster) string {
		if c.Status.UpdatedReplicas != *c.Spec.Replicas {
			return fmt.Sprintf("%d are updated", c.Status.UpdatedReplicas)
		}
		return isReady(c)
	})
}

// goBack does what docs/statefulcluster.md tells: the template of a ControllerRevision takes the place of the one of the spec.
func (s *suite) goBack(r *appsv1.ControllerRevision) {
	s.t.Helper()
	var data struct {
		Spec struct{ Template json.RawMessage }
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		s.t.Fatal(err)
	}
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/template","value":%s}]`, data.Spec.Template)
	if err := s.client.Patch(context.Background(), s.get(), client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		s.t.Fatal(err)
	}
}

// TestReconcile_history: each template is remembered under the name that the status tells, the limit holds for those that no replica has, and who goes back to
// one gets the very same.
func TestReconcile_history(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.add(1, func(c *v1alpha1.StatefulCluster) {
		c.Spec.RevisionHistoryLimit = ptr.To[int32](2)
		c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	})
	s.settle("the replica", isReady)
	s.isFirst(c)
	for n := 2; n <= 5; n++ {
		s.roll(fmt.Sprintf("image:%d", n))
	}
	all := s.history()
	if len(all) != 3 || all[0].Revision != 5 || all[2].Revision != 3 {
		t.Fatalf("with a limit of 2 there are %d: %+v", len(all), all)
	}
	s.goBack(&all[2])
	after := s.settle("image:3 is back", isReady)
	if image := s.pods()[0].Spec.Containers[0].Image; image != "image:3" {
		t.Errorf("the pod has %s", image)
	}
	if again := s.history(); len(again) != 3 || again[0].Name != all[2].Name || again[0].Revision != 6 || after.Status.UpdateRevision != all[2].Name {
		t.Errorf("%+v, status %+v", again, after.Status)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.RevisionHistoryLimit = ptr.To[int32](0) })
	s.mustPass()
	if again := s.history(); len(again) != 1 || again[0].Name != all[2].Name {
		t.Errorf("with a limit of 0 there are %+v", again)
	}
}

// isFirst holds that one template is remembered, under the name that the status tells, and that the pod has its hash.
func (s *suite) isFirst(c *v1alpha1.StatefulCluster) {
	s.t.Helper()
	all, first, hash := s.history(), s.get().Status, s.pods()[0].Labels[appsv1.ControllerRevisionHashLabelKey]
	if len(all) != 1 || all[0].Revision != 1 || !metav1.IsControlledBy(&all[0], c) {
		s.t.Fatalf("%+v", all)
	}
	if all[0].Name != "db-"+hash || first.UpdateRevision != all[0].Name || first.CurrentRevision != all[0].Name || all[0].Labels[appsv1.ControllerRevisionHashLabelKey] != hash {
		s.t.Fatalf("%+v, status %+v", all[0], first)
	}
}

// TestReconcile_historyOfReplicas: a template that a replica has is kept, whatever the limit is, until the last one has another.
func TestReconcile_historyOfReplicas(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(1, func(c *v1alpha1.StatefulCluster) {
		c.Spec.RevisionHistoryLimit = ptr.To[int32](0)
		c.Spec.UpdateStrategy.Type = v1alpha1.OnDelete
	})
	first := s.settle("the replica", isReady).Status
	for _, image := range []string{"image:2", "image:3"} {
		s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith(image) })
		s.mustPass()
	}
	all := s.history()
	if len(all) != 2 || all[1].Name != first.UpdateRevision {
		t.Fatalf("%+v", all)
	}
	if st := s.get().Status; st.CurrentRevision != all[1].Name || st.UpdateRevision != all[0].Name || st.CurrentReplicas != 1 {
		t.Errorf("%+v", st)
	}
	if err := s.client.Delete(context.Background(), &s.pods()[0], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.settle("the pod is made anew", func(c *v1alpha1.StatefulCluster) string {
		if c.Status.UpdatedReplicas != 1 {
			return fmt.Sprintf("%d", c.Status.UpdatedReplicas)
		}
		return isReady(c)
	})
	s.mustPass()
	if after := s.history(); len(after) != 1 || after[0].Name != all[0].Name {
		t.Errorf("%+v", after)
	}
}

// TestReconcile_historyAdopted: what has no owner and the label of the StatefulCluster is adopted by the next of that name.
func TestReconcile_historyAdopted(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	name := s.settle("the replica", isReady).Status.UpdateRevision
	mine, gone := s.history()[0], s.get()
	// No garbage collector runs beside the tests: this is what it does for --cascade=orphan.
	orphan := mine.DeepCopy()
	orphan.OwnerReferences = nil
	if err := errors.Join(s.client.Delete(context.Background(), gone), s.client.Update(context.Background(), orphan)); err != nil {
		t.Fatal(err)
	}
	s.create(example(s.namespace, 1))
	s.mustPass()
	if all := s.history(); len(all) != 1 || all[0].UID != mine.UID || !metav1.IsControlledBy(&all[0], s.get()) {
		t.Errorf("not adopted: %+v", all)
	}
	if st := s.get().Status; st.UpdateRevision != name || st.CollisionCount != nil {
		t.Errorf("%+v", st)
	}
}

// TestReconcile_historyOfOthers: a name that something else has is not taken from it, and counted.
func TestReconcile_historyOfOthers(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	name := s.settle("the replica", isReady).Status.UpdateRevision
	if err := s.client.Delete(context.Background(), &s.history()[0]); err != nil {
		t.Fatal(err)
	}
	s.create(&appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"app": "theirs"}},
		Data:       runtime.RawExtension{Raw: []byte(`{}`)}, Revision: 9,
	})
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.MinReadySeconds = 1 })
	s.mustPass()
	if st := s.get().Status; st.UpdateRevision != name+"-1" || st.CollisionCount == nil || *st.CollisionCount != 1 {
		t.Errorf("%+v", st)
	}
	if other := s.history()[0]; other.Name != name || len(other.OwnerReferences) > 0 || string(other.Data.Raw) != "{}" {
		t.Errorf("changed: %+v", other)
	}
}

// TestReconcile_historyFails: replicas are looked after even if the history cannot be read or written. It is tried again, and missing rights are told.
func TestReconcile_historyFails(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, "",
		errors.New(`User "x" cannot list resource "controllerrevisions" in API group "apps" in the namespace "y"`))
	for name, tc := range map[string]struct {
		err  error
		told func(*v1alpha1.StatefulCluster) string
	}{
		"a failure":      {err: errFault},
		"missing rights": {err: denied, told: says(v1alpha1.ConditionReplicasReady, v1alpha1.ReasonAccessDenied, "ClusterRole quarry-statefulcluster")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1")
			s.r.Live = interceptor.NewClient(s.client, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, is := list.(*appsv1.ControllerRevisionList); is {
						return tc.err
					}
					return c.List(ctx, list, opts...)
				},
			})
			s.add(1, nil)
			for range 3 {
				if err := s.pass(); (err == nil) != (tc.told != nil) {
					t.Fatalf("got %v", err)
				}
				s.kubelet()
			}
			c := s.get()
			if s.names() != "1" || c.Status.ReadyReplicas != 1 {
				t.Errorf("pods %s, status %+v", s.names(), c.Status)
			}
			if tc.told != nil {
				if complaint := tc.told(c); complaint != "" {
					t.Error(complaint)
				}
			}
			s.r.Live = s.client
			c = s.settle("the history is written", isReady)
			if all := s.history(); len(all) != 1 || all[0].Name != c.Status.UpdateRevision {
				t.Errorf("%+v, status %+v", all, c.Status)
			}
		})
	}
}
