// Package nfs binds the kind Nfs to the engine.
package nfs

import (
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// New returns the reconciler of Nfs.
func New(cfg storage.Config, b storage.Backend) *storage.Reconciler {
	return &storage.Reconciler{
		Config:    cfg,
		New:       func() v1alpha1.Storage { return &v1alpha1.Nfs{} },
		BackendOf: func(v1alpha1.Storage) (storage.Backend, string) { return b, "" },
	}
}
