// Package cluster binds the kind Cluster to the engine: its storageType chooses the backend.
package cluster

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=quarry.storage,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=clusters/finalizers,verbs=update

// Backends are the backends of Clusters by storageType.
type Backends map[v1alpha1.StorageType]storage.Backend

// New returns the reconciler of Clusters.
func New(cfg storage.Config, backends Backends) *storage.Reconciler {
	return &storage.Reconciler{
		Config: cfg,
		New:    func() v1alpha1.Storage { return &v1alpha1.Cluster{} },
		BackendOf: func(s v1alpha1.Storage) (storage.Backend, string) {
			c, ok := s.(*v1alpha1.Cluster)
			if !ok {
				return nil, fmt.Sprintf("%T is no Cluster.", s)
			}
			b := backends[c.Spec.StorageType]
			if b == nil {
				return nil, fmt.Sprintf("Clusters with storageType %s are not supported by this controller.", c.Spec.StorageType)
			}
			return b, ""
		},
	}
}
