package kube

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"quarry.storage/quarry/controller/internal/apitest"
)

// TestLater: a kind that is not defined yet keeps nobody from starting, and its objects are seen once it is.
func TestLater(t *testing.T) {
	objects, err := cache.New(apitest.Config(t), cache.Options{Scheme: apitest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = objects.Start(t.Context()) }()
	kind := schema.GroupVersionKind{Group: "late.example.com", Version: "v1", Kind: "Latecomer"}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	q := newQueue(t)
	if err := later(50*time.Millisecond, objects, apitest.Client(t), list, o, &handler.EnqueueRequestForObject{}).Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	c := apitest.Client(t)
	apitest.Define(t, c, "latecomers", kind)
	made := o.DeepCopy()
	made.SetName("a")
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); q.Len() == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the object is never seen")
		}
	}
	if got, _ := q.Get(); got.Name != "a" {
		t.Errorf("got %v", got)
	}
}
