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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (m *mirror) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f, err := m.formOf(o)
	if err != nil {
		return err
	}
	if held, err := m.find(ctx, f, key, o); held {
		return err
	}
	return c.Get(ctx, key, o, opts...)
}

// find reads an object from memory, if it is held there.
func (m *mirror) find(ctx context.Context, f form, key client.ObjectKey, o client.Object) (held bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.current(ctx, f)
	if h == nil || !m.holds(key) {
		return false, nil
	}
	if err := m.settle(ctx, f, h, key); err != nil {
		return true, err
	}
	have, ok := h.objects[key]
	if !ok {
		return true, apierrors.NewNotFound(schema.GroupResource{Group: f.kind.Group, Resource: strings.ToLower(f.kind.Kind)}, key.Name)
	}
	return true, read(have, o)
}

// current returns what is held in a form, all of it read from the API server; nil if it is not held, or cannot be now: the API server says why.
func (m *mirror) current(ctx context.Context, f form) *holding {
	h, ok := m.held[f]
	if !ok || m.redefined[f.kind.Group] {
		return nil
	}
	if h.objects != nil {
		return h
	}
	list, ok := h.list.DeepCopyObject().(client.ObjectList)
	if !ok || m.direct.List(context.WithoutCancel(ctx), list, client.InNamespace(m.namespace)) != nil {
		return nil
	}
	all := map[client.ObjectKey]client.Object{}
	if meta.EachListItem(list, func(o runtime.Object) error {
		c, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		all[client.ObjectKeyFromObject(c)] = c
		return nil
	}) != nil {
		return nil
	}
	h.objects, h.stale = all, map[client.ObjectKey]bool{}
	return h
}

// settle reads an object from the API server whose state nobody knows. The lock is held meanwhile, so that of two readers none takes in what is older.
func (m *mirror) settle(ctx context.Context, f form, h *holding, key client.ObjectKey) error {
	if !h.stale[key] {
		return nil
	}
	o, err := m.empty(f)
	if err != nil {
		return err
	}
	// Who reads may not want to know any more, and others do.
	err = m.direct.Get(context.WithoutCancel(ctx), key, o)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s: %w", f.kind.Kind, key.Name, err)
	}
	have, ok := h.objects[key]
	if ok && (err != nil || have.GetUID() != o.GetUID()) {
		m.gone[have.GetUID()] = true
	}
	delete(h.stale, key)
	delete(h.objects, key)
	if err == nil {
		h.objects[key] = o
	}
	return nil
}

// empty returns an object of a form without content.
func (m *mirror) empty(f form) (client.Object, error) {
	if f.loose {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(f.kind)
		return o, nil
	}
	made, err := m.scheme.New(f.kind)
	if err != nil {
		return nil, err
	}
	o, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", made)
	}
	return o, nil
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
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f, err := m.formOf(list)
	if err != nil {
		return err
	}
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	chosen := choice(f, o.FieldSelector)
	if m.selects(chosen) && o.Limit == 0 && (m.namespace == "" || m.namespace == o.Namespace) {
		if held, err := m.findAll(ctx, f, list, o); held {
			return err
		}
	}
	err = c.List(ctx, list, opts...)
	if err == nil {
		m.learn(chosen)
	}
	return err
}

// findAll reads objects from memory, if they are held there.
func (m *mirror) findAll(ctx context.Context, f form, list client.ObjectList, o *client.ListOptions) (held bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.current(ctx, f)
	if h == nil {
		return false, nil
	}
	for key := range h.stale {
		if o.Namespace != "" && o.Namespace != key.Namespace {
			continue
		}
		if err := m.settle(ctx, f, h, key); err != nil {
			return true, err
		}
	}
	var found []client.Object
	for key, have := range h.objects {
		if (o.Namespace != "" && o.Namespace != key.Namespace) || (o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(have.GetLabels()))) {
			continue
		}
		if chosen, err := matches(o.FieldSelector, have); err != nil {
			return true, err
		} else if chosen {
			found = append(found, have)
		}
	}
	slices.SortFunc(found, func(a, b client.Object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return true, setList(list, f.kind, found)
}

// choice names the fields by which objects of a form are chosen; it is empty if there are none.
func choice(f form, by fields.Selector) string {
	if by == nil || by.Empty() {
		return ""
	}
	name := f.kind.String()
	for _, r := range by.Requirements() {
		name += " " + r.Field
	}
	return name
}

// selects reports whether the API server once chose by these fields: it does not by all that objects have.
func (m *mirror) selects(chosen string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return chosen == "" || m.selectable[chosen]
}

// learn notes that the API server chose by these fields.
func (m *mirror) learn(chosen string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.selectable[chosen] = true
}

// matches reports whether fields choose an object.
func matches(by fields.Selector, o client.Object) (bool, error) {
	if by == nil {
		return true, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return false, err
	}
	have := fields.Set{}
	for _, r := range by.Requirements() {
		value, _, err := unstructured.NestedString(content, strings.Split(r.Field, ".")...)
		if err != nil {
			return false, err
		}
		have[r.Field] = value
	}
	return by.Matches(have), nil
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
