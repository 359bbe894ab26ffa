package harborcluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// The children that are rehearsed are listed once, and what is written is decided part by part. No child is written without its rehearsal, and none is rehearsed that is
// never written.
func TestReconcile_everyChildIsRehearsed(t *testing.T) {
	redirected := func(c *v1alpha1.HarborCluster) {
		c.Spec.Storage.Spec.Redirect = &v1alpha1.HarborRedirect{Expose: &v1alpha1.HarborRedirectExpose{Ingress: &v1alpha1.HarborIngress{Host: "minio.example.com"}}}
	}
	for name, edits := range map[string][]func(*v1alpha1.HarborCluster){
		"everything in the cluster": nil, "clients are redirected": {redirected}, "an external database": {externalDatabase},
		"an external cache": {externalCache}, "external storage": {externalStorage}, "everything external": {externalDatabase, externalCache, externalStorage},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.secret("db", "postgres-password")
			s.secret("redis", "redis-password")
			s.secret("s3", "secret")
			written := s.writes()
			s.healthy(edits...)
			installed := harbor.Installed{}
			for _, kind := range harbor.Operated(s.get()) {
				schema, missing, err := s.r.installed(t.Context(), kind)
				must(t, err)
				if missing.Status != "" {
					t.Fatalf("%s is not installed: %+v", kind.Kind, missing)
				}
				installed[kind] = schema
			}
			children, err := harbor.Children(s.get(), installed)
			must(t, err)
			var want []string
			for _, c := range children {
				want = append(want, c.Object.GetKind()+" "+c.Object.GetName())
			}
			slices.Sort(want)
			same(t, want, written())
		})
	}
}

// writes takes in which objects the reconciler writes from now on, by whatever verb, and returns them in order. A rehearsal writes nothing.
func (s *suite) writes() func() []string {
	var mu sync.Mutex
	all := map[string]bool{}
	take := func(kind, name string) {
		mu.Lock()
		defer mu.Unlock()
		all[kind+" "+name] = true
	}
	refused := func(verb string, o client.Object) {
		s.t.Errorf("%s of %T %s: children are applied", verb, o, o.GetName())
	}
	s.intercept(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if u, ok := o.(interface {
				GetKind() string
				GetName() string
			}); !ok {
				s.t.Errorf("%T has no name", o)
			} else if !rehearsal(opts) {
				take(u.GetKind(), u.GetName())
			}
			return c.Apply(ctx, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			// The witness is no child.
			if _, ok := o.(*v1alpha1.HarborWitness); !ok {
				refused("create", o)
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			refused("update", o)
			return c.Update(ctx, o, opts...)
		},
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(all))
	}
}
