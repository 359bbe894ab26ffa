package apitest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// TestMirror writes in every way that there is, and wants the mirror to show after each what the API server has.
func TestMirror(t *testing.T) {
	direct := apitest.Client(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "mirror-"}}
	must(t, direct.Create(t.Context(), ns))
	lost := false
	// A write may take effect and have no answer.
	between := interceptor.NewClient(direct, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if err := c.Update(ctx, o, opts...); err != nil || !lost {
			return err
		}
		return errors.New("the answer was lost")
	}})
	m := apitest.Mirror(t, between, &corev1.PodList{}, &corev1.ConfigMapList{})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "p", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i"}}},
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "m"}, Data: map[string]string{"k": "1"}}
	all := client.InNamespace(ns.Name)
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"create", func(ctx context.Context) error { return errors.Join(m.Create(ctx, pod), m.Create(ctx, config)) }},
		{"create without effect", func(ctx context.Context) error {
			return m.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "dry"}}, client.DryRunAll)
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
			pod.Status.Phase = corev1.PodRunning
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
		{"evict", func(ctx context.Context) error {
			return m.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
		}},
		{"delete", func(ctx context.Context) error { return m.Delete(ctx, config) }},
		{"create again", func(ctx context.Context) error {
			config.ResourceVersion, config.UID = "", ""
			return m.Create(ctx, config)
		}},
		{"delete all", func(ctx context.Context) error { return m.DeleteAllOf(ctx, &corev1.ConfigMap{}, all) }},
	} {
		if err := step.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		for _, list := range [][2]client.ObjectList{{&corev1.PodList{}, &corev1.PodList{}}, {&corev1.ConfigMapList{}, &corev1.ConfigMapList{}}} {
			must(t, errors.Join(direct.List(t.Context(), list[0], all), m.List(t.Context(), list[1], all)))
			list[0].SetResourceVersion("")
			if diff := cmp.Diff(list[0], list[1], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("after %s: (-API server, +mirror)\n%s", step.what, diff)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
