package harborcluster

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// definitions keeps what was read of CustomResourceDefinitions, because they are long and change only when an operator is installed anew.
type definitions struct {
	mu    sync.Mutex
	known map[schema.GroupVersionKind]definition
}

type definition struct {
	version string
	schema  *harbor.Schema
}

func (d *definitions) get(kind schema.GroupVersionKind, version string) (*harbor.Schema, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	have, ok := d.known[kind]
	return have.schema, ok && have.version == version
}

// version returns the resource version of the definition that was last read.
func (d *definitions) version(kind schema.GroupVersionKind) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[kind].version
}

// schema returns what was last read of the definition; nil when it was not.
func (d *definitions) schema(kind schema.GroupVersionKind) *harbor.Schema {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[kind].schema
}

func (d *definitions) put(kind schema.GroupVersionKind, version string, s *harbor.Schema) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[schema.GroupVersionKind]definition{}
	}
	d.known[kind] = definition{version, s}
}

// installed returns the schema that the operator of a kind brought; missing says that it is not installed. What is installed is watched from
// then on.
func (r *Reconciler) installed(ctx context.Context, kind schema.GroupVersionKind) (s *harbor.Schema, missing harbor.State, err error) {
	name := harbor.Definition(kind)
	if name == "" {
		return nil, harbor.State{}, nil
	}
	seen := kube.Definition()
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, seen)
	if apierrors.IsNotFound(err) {
		return nil, harbor.Failed(v1alpha1.ReasonHarborOperatorMissing, fmt.Sprintf(
			"The CustomResourceDefinition %s is not installed: install the operator of %s; it is picked up then.", name, kind.Kind)), nil
	}
	if err != nil {
		return nil, harbor.State{}, fmt.Errorf("get customresourcedefinition %s: %w", name, err)
	}
	if r.watch != nil {
		if err := r.watch(kind); err != nil {
			return nil, harbor.State{}, err
		}
	}
	if s, ok := r.definitions.get(kind, seen.ResourceVersion); ok {
		return s, harbor.State{}, nil
	}
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(seen.GroupVersionKind())
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, whole); err != nil {
		return nil, harbor.State{}, fmt.Errorf("read customresourcedefinition %s: %w", name, err)
	}
	s = harbor.SchemaOf(whole, kind.Version)
	r.definitions.put(kind, whole.GetResourceVersion(), s)
	return s, harbor.State{}, nil
}
