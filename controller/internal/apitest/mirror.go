package apitest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// mirror holds the objects of some kinds as the API server has them. It takes in every write that goes through its client, so that reads
// are like those of a cache that is never behind, and cost the API server nothing. Nobody else may write these kinds, and no two write one
// object at the same time.
type mirror struct {
	scheme *runtime.Scheme
	// direct reads from the API server.
	direct client.Reader

	mu   sync.Mutex
	held map[schema.GroupVersionKind]map[client.ObjectKey]client.Object
	// lists has an empty list of each kind.
	lists map[schema.GroupVersionKind]client.ObjectList
}

// Mirror returns a client that writes to the API server, and reads objects of the given kinds from memory. Every other read goes to the
// API server.
func Mirror(t testing.TB, c client.WithWatch, lists ...client.ObjectList) client.WithWatch {
	t.Helper()
	m := &mirror{
		scheme: c.Scheme(), direct: c, held: map[schema.GroupVersionKind]map[client.ObjectKey]client.Object{}, lists: map[schema.GroupVersionKind]client.ObjectList{},
	}
	for _, list := range lists {
		kind, err := m.kindOf(list)
		if err != nil {
			t.Fatal(err)
		}
		m.lists[kind] = list
		if err := m.fill(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: m.get, List: m.list,
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if how := (&client.CreateOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return c.Create(ctx, o, opts...)
			}
			return m.wrote(ctx, o, c.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return m.wrote(ctx, o, c.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return m.wrote(ctx, o, c.Patch(ctx, o, p, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.changed(ctx, o, c.Delete(ctx, o, opts...))
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			if err := c.DeleteAllOf(ctx, o, opts...); err != nil {
				return err
			}
			kind, err := m.kindOf(o)
			if err != nil {
				return err
			}
			return m.fill(ctx, kind)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			err := c.Apply(ctx, o, opts...)
			return m.applied(ctx, o, err)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			return m.changed(ctx, o, c.SubResource(sub).Create(ctx, o, body, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			err := c.SubResource(sub).Update(ctx, o, opts...)
			if how := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts); how.SubResourceBody != nil {
				return m.changed(ctx, o, err)
			}
			return m.wrote(ctx, o, err)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return m.wrote(ctx, o, c.SubResource(sub).Patch(ctx, o, p, opts...))
		},
	})
}

// fill reads all objects of a kind, if it is held.
func (m *mirror) fill(ctx context.Context, kind schema.GroupVersionKind) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, ok := m.lists[kind]
	if !ok {
		return nil
	}
	list, ok = list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return fmt.Errorf("the list of %s is none", kind.Kind)
	}
	if err := m.direct.List(ctx, list); err != nil {
		return fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	all := map[client.ObjectKey]client.Object{}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		c, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		all[client.ObjectKeyFromObject(c)] = c
		return nil
	})
	m.held[kind] = all
	return err
}

// kindOf returns the kind of an object, or of those in a list.
func (m *mirror) kindOf(o runtime.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(o, m.scheme)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind, err
}

// wrote takes in what became of an object, and passes the error of the write on.
func (m *mirror) wrote(ctx context.Context, o client.Object, err error) error {
	kind, unknown := m.kindOf(o)
	if err != nil || unknown != nil {
		return err
	}
	_, partial := o.(*metav1.PartialObjectMetadata)
	if _, loose := o.(runtime.Unstructured); partial || loose || !o.GetDeletionTimestamp().IsZero() {
		return m.refresh(ctx, kind, client.ObjectKeyFromObject(o))
	}
	// What the API server returned is the whole object.
	m.mu.Lock()
	defer m.mu.Unlock()
	if all, ok := m.held[kind]; ok {
		copied, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		all[client.ObjectKeyFromObject(o)] = copied
	}
	return nil
}

// changed is wrote for a write that does not return the object.
func (m *mirror) changed(ctx context.Context, o client.Object, err error) error {
	if err != nil {
		return err
	}
	kind, err := m.kindOf(o)
	if err != nil {
		return err
	}
	return m.refresh(ctx, kind, client.ObjectKeyFromObject(o))
}

// applied is wrote for an object that was applied.
func (m *mirror) applied(ctx context.Context, o runtime.ApplyConfiguration, err error) error {
	if err != nil {
		return err
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	p := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, p); err != nil {
		return err
	}
	return m.refresh(ctx, p.GroupVersionKind(), client.ObjectKeyFromObject(p))
}

// refresh reads one object from the API server. The lock is held meanwhile, so that of two writers none takes in what is older.
func (m *mirror) refresh(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, ok := m.held[kind]
	if !ok {
		return nil
	}
	made, err := m.scheme.New(kind)
	if err != nil {
		return err
	}
	o, ok := made.(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", made)
	}
	err = m.direct.Get(ctx, key, o)
	if err != nil {
		delete(all, key)
		return client.IgnoreNotFound(err)
	}
	all[key] = o
	return nil
}

func (m *mirror) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	kind, err := m.kindOf(o)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all, ok := m.held[kind]
	if !ok {
		return c.Get(ctx, key, o, opts...)
	}
	have, ok := all[key]
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
	m.mu.Lock()
	defer m.mu.Unlock()
	all, ok := m.held[kind]
	if !ok || o.FieldSelector != nil || o.Limit != 0 {
		return c.List(ctx, list, opts...)
	}
	var found []client.Object
	for key, have := range all {
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
