package apitest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// TestMirror writes in every way that there is, and wants the mirror to show after each what the API server has.
func TestMirror(t *testing.T) {
	direct := apitest.Client(t)
	ns := space(t, direct)
	lost := false
	// A write may take effect and have no answer.
	between := interceptor.NewClient(direct, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if err := c.Update(ctx, o, opts...); err != nil || !lost {
			return err
		}
		return errors.New("the answer was lost")
	}})
	m := apitest.Mirror(t, between, &corev1.PodList{}, &corev1.ConfigMapList{}, apitest.Loose(configMap),
		&policyv1.PodDisruptionBudgetList{}, apitest.Loose(budgetKind))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i"}}},
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m"}, Data: map[string]string{"k": "1"}}
	var free *unstructured.Unstructured
	all := client.InNamespace(ns)
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"create", func(ctx context.Context) error { return errors.Join(m.Create(ctx, pod), m.Create(ctx, config)) }},
		{"create without effect", func(ctx context.Context) error {
			return m.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "dry"}}, client.DryRunAll)
		}},
		{"update", func(ctx context.Context) error { config.Data["k"] = "2"; return m.Update(ctx, config) }},
		{"update without effect", func(ctx context.Context) error {
			c := config.DeepCopy()
			c.Data["k"] = "dry"
			return m.Update(ctx, c, client.DryRunAll)
		}},
		{"update whose answer is lost", func(ctx context.Context) error {
			lost = true
			defer func() { lost = false }()
			config.Data["k"] = "3"
			if err := m.Update(ctx, config); err == nil {
				return errors.New("the answer was not lost")
			}
			return nil
		}},
		{"update that is refused", func(ctx context.Context) error {
			c := config.DeepCopy()
			c.ResourceVersion = "1"
			if err := m.Update(ctx, c); err == nil {
				return errors.New("it was not refused")
			}
			return nil
		}},
		{"patch", func(ctx context.Context) error {
			c := config.DeepCopy()
			c.Data["k"] = "4"
			return m.Patch(ctx, c, client.MergeFrom(config))
		}},
		{"patch without effect", func(ctx context.Context) error {
			c := config.DeepCopy()
			c.Data["k"] = "dry"
			return m.Patch(ctx, c, client.MergeFrom(config), client.DryRunAll)
		}},
		{"status", func(ctx context.Context) error {
			pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			return m.Status().Update(ctx, pod)
		}},
		{"by somebody's label", func(ctx context.Context) error {
			var list corev1.PodList
			err := m.List(ctx, &list, all, client.MatchingLabels{"a": "b"})
			if err == nil && len(list.Items) != 1 {
				err = errors.New("the pod is not listed")
			}
			return err
		}},
		{"a budget", func(ctx context.Context) error {
			if err := m.Create(ctx, budget); err != nil {
				return err
			}
			budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 1, ExpectedPods: 1}
			return m.Status().Update(ctx, budget)
		}},
		{"evict", func(ctx context.Context) error {
			return m.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
		}},
		{"delete", func(ctx context.Context) error { return m.Delete(ctx, config) }},
		{"create again", func(ctx context.Context) error {
			config.ResourceVersion, config.UID = "", ""
			return m.Create(ctx, config)
		}},
		{"create loosely", func(ctx context.Context) error {
			free = loose(configMap, ns, "free")
			free.Object["data"] = map[string]any{"k": "1"}
			return m.Create(ctx, free)
		}},
		{"update loosely", func(ctx context.Context) error {
			free.Object["data"] = map[string]any{"k": "2"}
			return m.Update(ctx, free)
		}},
		{"patch loosely", func(ctx context.Context) error {
			o := free.DeepCopy()
			o.Object["data"] = map[string]any{"k": "3"}
			return m.Patch(ctx, o, client.MergeFrom(free))
		}},
		{"apply", func(ctx context.Context) error {
			o := loose(configMap, ns, "free")
			o.Object["data"] = map[string]any{"k": "4"}
			return m.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("t"), client.ForceOwnership)
		}},
		{"apply without effect", func(ctx context.Context) error {
			o := loose(configMap, ns, "free")
			o.Object["data"] = map[string]any{"k": "dry"}
			return m.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("t"), client.ForceOwnership, client.DryRunAll)
		}},
		{"apply what has a type", func(ctx context.Context) error {
			return m.Apply(ctx, applyv1.ConfigMap("free", ns).WithData(map[string]string{"k": "5"}), client.FieldOwner("t"), client.ForceOwnership)
		}},
		{"delete loosely what somebody holds", func(ctx context.Context) error {
			config.Finalizers = []string{"example.com/hold"}
			return errors.Join(m.Update(ctx, config), m.Delete(ctx, loose(configMap, ns, config.Name)))
		}},
		{"let go", func(ctx context.Context) error {
			config.Finalizers, config.ResourceVersion = nil, ""
			return m.Update(ctx, config)
		}},
		{"delete all", func(ctx context.Context) error { return m.DeleteAllOf(ctx, &corev1.ConfigMap{}, all) }},
	} {
		if err := step.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		alike(t, "after "+step.what, direct, m, all, &corev1.PodList{}, &corev1.ConfigMapList{}, apitest.Loose(configMap),
			&policyv1.PodDisruptionBudgetList{}, apitest.Loose(budgetKind))
	}
}

// alike wants the mirror to list what the API server has, and to get each of it.
func alike(t *testing.T, when string, direct, m client.Client, in client.InNamespace, lists ...client.ObjectList) {
	t.Helper()
	for _, list := range lists {
		want, got := list.DeepCopyObject().(client.ObjectList), list.DeepCopyObject().(client.ObjectList)
		must(t, errors.Join(direct.List(t.Context(), want, in), m.List(t.Context(), got, in)))
		must(t, errors.Join(meta.EachListItem(want, one(t, when, direct, m)), meta.EachListItem(got, one(t, when, direct, m))))
		if w, g := items(t, want), items(t, got); !cmp.Equal(w, g, cmpopts.EquateEmpty()) {
			t.Errorf("%s: (-API server, +mirror)\n%s", when, cmp.Diff(w, g, cmpopts.EquateEmpty()))
		}
	}
}

// one wants the mirror to get an object as the API server has it.
func one(t *testing.T, when string, direct, m client.Client) func(runtime.Object) error {
	return func(o runtime.Object) error {
		want, got := o.DeepCopyObject().(client.Object), o.DeepCopyObject().(client.Object)
		key := client.ObjectKeyFromObject(want)
		err := errors.Join(direct.Get(t.Context(), key, want), m.Get(t.Context(), key, got))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-API server, +mirror)\n%s", when, diff)
		}
		return err
	}
}

func items(t *testing.T, list client.ObjectList) []runtime.Object {
	t.Helper()
	all, err := meta.ExtractList(list)
	must(t, err)
	return all
}

var budgetKind = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")

var configMap = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func loose(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func space(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "mirror-"}}
	must(t, c.Create(t.Context(), ns))
	return ns.Name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
