package apitest

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definitions is the kind whose objects define other kinds.
var definitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// wrote takes in what became of an object, and passes the error of the write on.
func (m *mirror) wrote(o client.Object, err error) error {
	if err != nil {
		return m.changed(o, err)
	}
	f, unknown := m.formOf(o)
	if unknown != nil {
		return unknown
	}
	if _, partial := o.(*metav1.PartialObjectMetadata); partial || !o.GetDeletionTimestamp().IsZero() {
		m.doubt(f.kind, client.ObjectKeyFromObject(o))
		return nil
	}
	// What the API server returned is the whole object, in one of the forms.
	m.mu.Lock()
	defer m.mu.Unlock()
	m.define(f.kind, o.GetName())
	key := client.ObjectKeyFromObject(o)
	for _, other := range forms(f.kind) {
		if h, ok := m.held[other]; ok && other != f {
			h.doubt(key)
		}
	}
	if h, ok := m.held[f]; ok && m.holds(key) && !m.gone[o.GetUID()] {
		return h.take(key, o)
	}
	return nil
}

// take holds an object, unless what is held is newer: of two that write one object at the same time, the last one may be here first.
func (h *holding) take(key client.ObjectKey, o client.Object) error {
	if h.objects == nil || h.stale[key] {
		return nil
	}
	if have, ok := h.objects[key]; ok {
		if order, err := resourceversion.CompareResourceVersion(have.GetResourceVersion(), o.GetResourceVersion()); err != nil || order > 0 {
			return err
		}
	}
	copied, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	h.objects[key] = copied
	return nil
}

// doubt lets the next read of an object ask the API server.
func (h *holding) doubt(key client.ObjectKey) {
	if h.objects != nil {
		h.stale[key] = true
	}
}

// changed is wrote for a write that does not return the object, or that failed: it may have taken effect all the same.
func (m *mirror) changed(o client.Object, err error) error {
	f, unknown := m.formOf(o)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	m.doubt(f.kind, client.ObjectKeyFromObject(o))
	return err
}

// doubt lets the next read of an object ask the API server, whatever its form.
func (m *mirror) doubt(kind schema.GroupVersionKind, key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.define(kind, key.Name)
	if key.Name == "" || !m.holds(key) {
		return
	}
	for _, f := range forms(kind) {
		if h, ok := m.held[f]; ok {
			h.doubt(key)
		}
	}
}

// changedAll is changed for all objects of a kind.
func (m *mirror) changedAll(o client.Object, err error) error {
	f, unknown := m.formOf(o)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range forms(f.kind) {
		if h, ok := m.held[f]; ok {
			for key := range h.objects {
				h.doubt(key)
			}
		}
	}
	return err
}

// applied is wrote for an object that was applied.
func (m *mirror) applied(o runtime.ApplyConfiguration, err error) error {
	if u, ok := o.(runtime.Unstructured); ok {
		return m.wrote(&unstructured.Unstructured{Object: u.UnstructuredContent()}, err)
	}
	raw, unknown := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	return m.changed(&unstructured.Unstructured{Object: raw}, err)
}

// define takes note of a write to a definition. Its objects may go, or become others, at any time after it.
func (m *mirror) define(kind schema.GroupVersionKind, name string) {
	if kind.GroupKind() == definitions {
		m.redefined[schema.ParseGroupResource(name).Group] = true
	}
}

// holds reports whether an object is in the namespace that is held.
func (m *mirror) holds(key client.ObjectKey) bool {
	return m.namespace == "" || m.namespace == key.Namespace
}
