package apitest_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// counted counts the reads of a client.
func counted(c client.WithWatch, reads *int) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			*reads++
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			*reads++
			return c.List(ctx, l, opts...)
		},
	})
}

// TestMirror_asksNothing: what the API server returned of a write is not asked for again, and of other namespaces nothing is held.
func TestMirror_asksNothing(t *testing.T) {
	reads := 0
	direct := apitest.Client(t)
	here, there := space(t, direct), space(t, direct)
	m := apitest.MirrorOf(t, counted(direct, &reads), here, apitest.Loose(configMap))
	want := func(when string, count int) {
		t.Helper()
		alike(t, when, direct, m, client.InNamespace(here), apitest.Loose(configMap))
		if reads != count {
			t.Errorf("%s: the API server was asked %d times instead of %d", when, reads, count)
		}
	}
	want("at first", 1)
	o := loose(configMap, here, "a")
	must(t, m.Create(t.Context(), o))
	o.Object["data"] = map[string]any{"k": "1"}
	must(t, m.Update(t.Context(), o))
	must(t, m.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(loose(configMap, here, "b")), client.FieldOwner("t")))
	want("after writes", 1)
	must(t, m.Delete(t.Context(), o))
	want("after a deletion", 2)
	want("later", 2)
	other := loose(configMap, there, "a")
	must(t, m.Create(t.Context(), other))
	must(t, m.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	must(t, m.List(t.Context(), apitest.Loose(configMap), client.InNamespace(there)))
	must(t, m.List(t.Context(), apitest.Loose(configMap)))
	want("after reads of another namespace", 5)
}

// TestMirror_fields: objects are chosen by the fields that the API server chooses by, and by no others.
func TestMirror_fields(t *testing.T) {
	reads := 0
	direct := apitest.Client(t)
	ns := space(t, direct)
	m := apitest.MirrorOf(t, counted(direct, &reads), ns, &v1alpha1.GlusterNodeList{})
	for _, name := range []string{"a", "b"} {
		must(t, m.Create(t.Context(), &v1alpha1.GlusterNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec:       v1alpha1.GlusterNodeSpec{Cluster: "of-" + name, External: &v1alpha1.GlusterExternal{Address: name}},
		}))
	}
	for range 3 {
		var list v1alpha1.GlusterNodeList
		must(t, m.List(t.Context(), &list, client.InNamespace(ns), client.MatchingFields{"spec.cluster": "of-b"}))
		if len(list.Items) != 1 || list.Items[0].Name != "b" {
			t.Errorf("got %+v", list.Items)
		}
		if err := m.List(t.Context(), &list, client.InNamespace(ns), client.MatchingFields{"spec.zone": "z"}); !apierrors.IsBadRequest(err) {
			t.Errorf("by a field that nothing is chosen by: %v", err)
		}
	}
	// All objects once, by one field once, and by the other one each time.
	if reads != 5 {
		t.Errorf("the API server was asked %d times", reads)
	}
}

// TestMirror_definitions: objects come and go with the definition of their kind.
func TestMirror_definitions(t *testing.T) {
	direct := apitest.Client(t)
	ns := space(t, direct)
	kind := schema.GroupVersionKind{Group: "mirror.example.com", Version: "v1", Kind: "Thing"}
	m := apitest.MirrorOf(t, direct, ns, apitest.Loose(kind))
	key := client.ObjectKey{Namespace: ns, Name: "a"}
	get := func() error { return m.Get(t.Context(), key, loose(kind, "", "")) }
	if get() == nil {
		t.Error("there is an object of a kind that there is not")
	}
	t.Run("while it is defined", func(t *testing.T) {
		apitest.DefineNamespaced(t, direct, "things", kind)
		must(t, m.Create(t.Context(), loose(kind, ns, "a")))
		alike(t, "defined", direct, m, client.InNamespace(ns), apitest.Loose(kind))
		definition := loose(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", "things.mirror.example.com")
		must(t, m.Delete(t.Context(), definition))
		for end := time.Now().Add(time.Minute); get() == nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the object of a kind that is not defined any more is still there")
			}
		}
	})
}
