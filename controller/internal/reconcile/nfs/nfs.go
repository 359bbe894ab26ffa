// Package nfs binds the kind Nfs to the engine.
package nfs

import (
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=nfs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=quarry.storage,resources=nfs/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=nfs/finalizers,verbs=update

// workers is how many shares are looked at in parallel. A look at a share whose server is dead waits for seconds, every ten seconds: as many
// of them as there are workers must not keep a look at a healthy share waiting. A worker that waits costs no more than a goroutine.
const workers = 32

// New returns the reconciler of Nfs.
func New(cfg storage.Config, b storage.Backend) *storage.Reconciler {
	return &storage.Reconciler{
		Config:    cfg,
		Workers:   workers,
		New:       func() v1alpha1.Storage { return &v1alpha1.Nfs{} },
		BackendOf: func(v1alpha1.Storage) (storage.Backend, string) { return b, "" },
	}
}
