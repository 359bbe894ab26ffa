package kube

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Storages returns the storages of all kinds.
func Storages(ctx context.Context, c client.Reader) ([]v1alpha1.Storage, error) {
	var all []v1alpha1.Storage
	for _, list := range v1alpha1.StorageLists() {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list storages: %w", err)
		}
		all = append(all, list.Storages()...)
	}
	return all, nil
}

// StorageKinds returns an empty object of every kind of storages, to be watched.
func StorageKinds(scheme *runtime.Scheme) ([]client.Object, error) {
	var kinds []client.Object
	for _, list := range v1alpha1.StorageLists() {
		kind, err := apiutil.GVKForObject(list, scheme)
		if err != nil {
			return nil, fmt.Errorf("find the kind of %T: %w", list, err)
		}
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		o, err := scheme.New(kind)
		if err != nil {
			return nil, fmt.Errorf("make an empty %s: %w", kind.Kind, err)
		}
		item, ok := o.(client.Object)
		if !ok {
			return nil, fmt.Errorf("kind %s is no object", kind.Kind)
		}
		kinds = append(kinds, item)
	}
	return kinds, nil
}
