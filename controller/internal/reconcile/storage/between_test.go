package storage

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func groupOf(uuid string, volumes ...string) backendtest.Group {
	return backendtest.Group{UUID: uuid, Name: "group", PVs: []string{"pv-" + uuid}, Volumes: volumes, Size: 100 << 30, Free: 100 << 30}
}

// between returns a client that asks a function before and tells it after every write.
func between(c client.WithWatch, write func(verb string, name string, do func() error) error) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o.GetName(), func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write("delete", o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("the engine never updates: it patches")
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write("patch", o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return write("apply", "", func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+sub, o.GetName(), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// deny returns a client that refuses some writes.
func deny(c client.WithWatch, refuse func(verb, name string) error) client.WithWatch {
	return between(c, func(verb, name string, do func() error) error {
		if err := refuse(verb, name); err != nil {
			return err
		}
		return do()
	})
}

// errConflict is what all conflicts of tests are.
var errConflict = errors.New("changed meanwhile")

type conflictStatus struct{ *apierrors.StatusError }

func (c conflictStatus) Is(err error) bool { return err == errConflict }

func conflict() error {
	return conflictStatus{apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.Group, Resource: "clusters"}, "pool", errConflict)}
}

// filterMembers returns a client whose lists of Members have only those that a function keeps.
func filterMembers(c client.WithWatch, keep func(m *v1alpha1.Member) bool) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if l, ok := list.(*v1alpha1.MemberList); ok {
				l.Items = slices.DeleteFunc(l.Items, func(m v1alpha1.Member) bool { return !keep(&m) })
			}
			return err
		},
	})
}

// failReads returns a client that asks a function before every read.
func failReads(c client.WithWatch, read func() error) client.WithWatch {
	return failReadsOf(c, func(runtime.Object) error { return read() })
}

// failReadsOf has a function say which reads fail, by what they read.
func failReadsOf(c client.WithWatch, read func(runtime.Object) error) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := read(o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := read(list); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	})
}
