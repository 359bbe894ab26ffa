// Package iscsi binds the kind Iscsi to the engine.
package iscsi

import (
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=iscsis,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=quarry.storage,resources=iscsis/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=iscsis/finalizers,verbs=update

// workers is how many Iscsis are looked at in parallel. A look at one whose target is dead waits for seconds.
const workers = 16

// New returns the reconciler of Iscsi.
func New(cfg storage.Config, b storage.Backend) *storage.Reconciler {
	return &storage.Reconciler{
		Config:    cfg,
		Workers:   workers,
		New:       func() v1alpha1.Storage { return &v1alpha1.Iscsi{} },
		BackendOf: func(v1alpha1.Storage) (storage.Backend, string) { return b, "" },
	}
}
