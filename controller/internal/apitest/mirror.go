package apitest

import (
	"context"
	"strings"
	"sync"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	// namespace whose objects are held; all when empty.
	namespace string
	// held is what there is of each form. There are no others: kinds are added before the first read.
	held map[form]*holding

	mu sync.Mutex
	// gone are the objects that were there. A write that ended before may be taken in after it.
	gone map[types.UID]bool
	// redefined are the groups whose definitions were written: nobody tells when that shows in their objects.
	redefined map[string]bool
	// selectable are choices by fields that the API server made.
	selectable map[string]bool
}

// form is how objects of a kind are held and read: as their Go type, or loose, with whatever fields the API server has.
type form struct {
	kind  schema.GroupVersionKind
	loose bool
}

// holding has the objects of one form.
type holding struct {
	// list is an empty list of them.
	list client.ObjectList
	// objects that there are; nil until somebody reads.
	objects map[client.ObjectKey]client.Object
	// stale are those that somebody wrote, and of which nobody knows what became. The next read asks the API server.
	stale map[client.ObjectKey]bool
}

// Mirror returns a client that writes to the API server, and reads objects of the given kinds from memory. Every other read goes to the
// API server. Unstructured objects are read from memory if their kind is given by an unstructured list.
func Mirror(t testing.TB, c client.WithWatch, lists ...client.ObjectList) client.WithWatch {
	t.Helper()
	return newMirror(t, c, "", lists).client(c)
}

// MirrorOf is Mirror for the objects of one namespace.
func MirrorOf(t testing.TB, c client.WithWatch, namespace string, lists ...client.ObjectList) client.WithWatch {
	t.Helper()
	return newMirror(t, c, namespace, lists).client(c)
}

// Loose is an empty list of unstructured objects of a kind.
func Loose(kind schema.GroupVersionKind) client.ObjectList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return l
}

func newMirror(t testing.TB, c client.WithWatch, namespace string, lists []client.ObjectList) *mirror {
	t.Helper()
	m := &mirror{
		scheme: c.Scheme(), direct: c, namespace: namespace, held: map[form]*holding{}, gone: map[types.UID]bool{}, redefined: map[string]bool{},
		selectable: map[string]bool{},
	}
	for _, list := range lists {
		f, err := m.formOf(list)
		if err != nil {
			t.Fatal(err)
		}
		m.held[f] = &holding{list: list}
	}
	return m
}

// client returns a client that reads from the mirror, and lets it take in what is written.
func (m *mirror) client(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: m.get, List: m.list,
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			if how := (&client.CreateOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return err
			}
			return m.wrote(o, err)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if how := (&client.UpdateOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return c.Update(ctx, o, opts...)
			}
			return m.wrote(o, c.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if how := (&client.PatchOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return c.Patch(ctx, o, p, opts...)
			}
			return m.wrote(o, c.Patch(ctx, o, p, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.changed(o, c.Delete(ctx, o, opts...))
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			return m.changedAll(o, c.DeleteAllOf(ctx, o, opts...))
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			err := c.Apply(ctx, o, opts...)
			if how := (&client.ApplyOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				return err
			}
			return m.applied(o, err)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			err := m.changed(o, c.SubResource(sub).Create(ctx, o, body, opts...))
			if sub == "eviction" {
				// The API server writes down in budgets which pods it lets go.
				err = m.changedAll(&policyv1.PodDisruptionBudget{}, err)
			}
			return err
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			err := c.SubResource(sub).Update(ctx, o, opts...)
			if how := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts); how.SubResourceBody != nil {
				return m.changed(o, err)
			}
			return m.wrote(o, err)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return m.wrote(o, c.SubResource(sub).Patch(ctx, o, p, opts...))
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return m.applied(o, c.SubResource(sub).Apply(ctx, o, opts...))
		},
	})
}

// formOf returns the form of an object, or of those in a list.
func (m *mirror) formOf(o runtime.Object) (form, error) {
	kind, err := apiutil.GVKForObject(o, m.scheme)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	_, loose := o.(runtime.Unstructured)
	return form{kind, loose}, err
}

// forms returns both forms of a kind.
func forms(kind schema.GroupVersionKind) [2]form { return [2]form{{kind, false}, {kind, true}} }
