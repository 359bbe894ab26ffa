package apitest

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Define makes a cluster-scoped kind available that is an add-on of Kubernetes, with any content, until the end of the test.
func Define(t testing.TB, c client.Client, resource string, kind schema.GroupVersionKind) {
	t.Helper()
	define(t, c, definition("Cluster", resource, kind), kind)
}

// DefineNamespaced is Define for a kind whose objects are in namespaces.
func DefineNamespaced(t testing.TB, c client.Client, resource string, kind schema.GroupVersionKind) {
	t.Helper()
	define(t, c, definition("Namespaced", resource, kind), kind)
}

func define(t testing.TB, c client.Client, o *unstructured.Unstructured, kind schema.GroupVersionKind) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { undefine(t, c, o) })
	until(t, kind.Kind+" is served", func() bool {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(kind)
		return c.List(t.Context(), l) == nil
	})
}

func definition(scope, resource string, kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": kind.Group, "scope": scope,
		"names": map[string]any{"kind": kind.Kind, "listKind": kind.Kind + "List", "plural": resource, "singular": resource[:len(resource)-1]},
		"versions": []any{map[string]any{
			"name": kind.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}},
	}}}
	o.SetAPIVersion("apiextensions.k8s.io/v1")
	o.SetKind("CustomResourceDefinition")
	o.SetName(resource + "." + kind.Group)
	// An API of the Kubernetes project needs to say that it was looked at.
	o.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/665"})
	return o
}

// undefine removes a definition with its objects, and waits until it is gone.
func undefine(t testing.TB, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
		t.Error(err)
	}
	until(t, o.GetName()+" is gone", func() bool {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()))
	})
}

func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
