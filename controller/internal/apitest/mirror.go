package apitest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// mirror holds the objects of some kinds as the API server has them. It takes in every write that goes through its client, so that reads
// are like those of a cache that is never behind, and cost the API server nothing. Nobody else may write these kinds.
type mirror struct {
	scheme *runtime.Scheme
	// direct reads from the API server.
	direct client.Reader

	mu   sync.Mutex
	held map[schema.GroupVersionKind]map[client.ObjectKey]client.Object
	// gone are the objects that were there. A write that ended before may be taken in after it.
	gone map[types.UID]bool
	// lists has an empty list of each kind that is held.
	lists map[schema.GroupVersionKind]client.ObjectList
}

// Mirror returns a client that writes to the API server, and reads objects of the given kinds from memory. Every other read goes to the
// API server.
func Mirror(t testing.TB, c client.WithWatch, lists ...client.ObjectList) client.WithWatch {
	t.Helper()
	m := newMirror(t, c, lists)
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: m.get, List: m.list,
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			if how := (&client.CreateOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return err
			}
			return m.wrote(ctx, o, err)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if how := (&client.UpdateOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return c.Update(ctx, o, opts...)
			}
			return m.wrote(ctx, o, c.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if how := (&client.PatchOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return c.Patch(ctx, o, p, opts...)
			}
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

func newMirror(t testing.TB, c client.WithWatch, lists []client.ObjectList) *mirror {
	t.Helper()
	m := &mirror{
		scheme: c.Scheme(), direct: c, held: map[schema.GroupVersionKind]map[client.ObjectKey]client.Object{}, lists: map[schema.GroupVersionKind]client.ObjectList{},
		gone: map[types.UID]bool{},
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
	return m
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
	if err := m.direct.List(context.WithoutCancel(ctx), list); err != nil {
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
	for key, o := range m.held[kind] {
		if now, ok := all[key]; !ok || now.GetUID() != o.GetUID() {
			m.gone[o.GetUID()] = true
		}
	}
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
	if err != nil {
		return m.changed(ctx, o, err)
	}
	kind, unknown := m.kindOf(o)
	if unknown != nil {
		return unknown
	}
	_, partial := o.(*metav1.PartialObjectMetadata)
	if _, loose := o.(runtime.Unstructured); partial || loose || !o.GetDeletionTimestamp().IsZero() {
		return m.refresh(ctx, kind, client.ObjectKeyFromObject(o))
	}
	// What the API server returned is the whole object.
	m.mu.Lock()
	defer m.mu.Unlock()
	all, ok := m.held[kind]
	if !ok || m.gone[o.GetUID()] {
		return nil
	}
	key := client.ObjectKeyFromObject(o)
	if have, ok := all[key]; ok {
		// Of two that write one object at the same time, the last one may be here first.
		if order, err := resourceversion.CompareResourceVersion(have.GetResourceVersion(), o.GetResourceVersion()); err != nil || order > 0 {
			return err
		}
	}
	copied, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	all[key] = copied
	return nil
}

// changed is wrote for a write that does not return the object, or that failed: it may have taken effect all the same.
func (m *mirror) changed(ctx context.Context, o client.Object, err error) error {
	kind, unknown := m.kindOf(o)
	if unknown != nil || o.GetName() == "" {
		return errors.Join(err, unknown)
	}
	if failed := m.refresh(ctx, kind, client.ObjectKeyFromObject(o)); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// applied is wrote for an object that was applied.
func (m *mirror) applied(ctx context.Context, o runtime.ApplyConfiguration, err error) error {
	raw, unknown := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	p := &metav1.PartialObjectMetadata{}
	if unknown := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, p); unknown != nil {
		return errors.Join(err, unknown)
	}
	if failed := m.refresh(ctx, p.GroupVersionKind(), client.ObjectKeyFromObject(p)); failed != nil {
		return errors.Join(err, failed)
	}
	return err
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
	// Who wrote may not want to know any more.
	err = m.direct.Get(context.WithoutCancel(ctx), key, o)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s: %w", kind.Kind, key.Name, err)
	}
	if err != nil {
		if have, ok := all[key]; ok {
			m.gone[have.GetUID()] = true
		}
		delete(all, key)
		return nil
	}
	all[key] = o
	return nil
}
