package apitest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (m *mirror) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	kind, err := m.kindOf(o)
	if err != nil {
		return err
	}
	_, loose := o.(runtime.Unstructured)
	if _, ok := m.lists[kind]; !ok || loose {
		return c.Get(ctx, key, o, opts...)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	have, ok := m.held[kind][key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name)
	}
	return read(have, o)
}

// read copies an object into one of its type, or its metadata.
func read(from, to client.Object) error {
	if p, ok := to.(*metav1.PartialObjectMetadata); ok {
		p.ObjectMeta = *metadataOf(from)
		return nil
	}
	copied := reflect.ValueOf(from.DeepCopyObject())
	if copied.Type() != reflect.TypeOf(to) {
		return fmt.Errorf("%T is read as %T", from, to)
	}
	reflect.ValueOf(to).Elem().Set(copied.Elem())
	return nil
}

func metadataOf(o client.Object) *metav1.ObjectMeta {
	m, ok := reflect.ValueOf(o.DeepCopyObject()).Elem().FieldByName("ObjectMeta").Addr().Interface().(*metav1.ObjectMeta)
	if !ok {
		panic(fmt.Sprintf("%T has no metadata", o))
	}
	return m
}

func (m *mirror) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := m.kindOf(list)
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	_, loose := list.(runtime.Unstructured)
	if _, ok := m.lists[kind]; !ok || loose || o.FieldSelector != nil || o.Limit != 0 {
		return c.List(ctx, list, opts...)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []client.Object
	for key, have := range m.held[kind] {
		if (o.Namespace == "" || o.Namespace == key.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(have.GetLabels()))) {
			found = append(found, have)
		}
	}
	slices.SortFunc(found, func(a, b client.Object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return setList(list, kind, found)
}

// setList puts copies into a list, or their metadata.
func setList(list client.ObjectList, kind schema.GroupVersionKind, found []client.Object) error {
	if p, ok := list.(*metav1.PartialObjectMetadataList); ok {
		p.Items = nil
		for _, o := range found {
			item := metav1.PartialObjectMetadata{ObjectMeta: *metadataOf(o)}
			item.SetGroupVersionKind(kind)
			p.Items = append(p.Items, item)
		}
		return nil
	}
	items := make([]runtime.Object, 0, len(found))
	for _, o := range found {
		items = append(items, o.DeepCopyObject())
	}
	return meta.SetList(list, items)
}
