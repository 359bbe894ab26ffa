package setup

import (
	"crypto/rand"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quarry.storage/quarry/controller/internal/reconcile/harborcluster"
)

// harborClusters adds the reconciler of HarborClusters. It watches its children through a cache of its own: the manager's keeps the
// Deployments of one namespace only.
func harborClusters(mgr manager.Manager, cfg Config) error {
	selected, err := harborcluster.Selections()
	if err != nil {
		return err
	}
	children, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: cache.TransformStripManagedFields(), ByObject: selected,
	})
	if err != nil {
		return fmt.Errorf("make cache of harborclusters' children: %w", err)
	}
	if err := mgr.Add(children); err != nil {
		return fmt.Errorf("add cache of harborclusters' children: %w", err)
	}
	r := &harborcluster.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("quarry-controller"), Password: rand.Text,
		Settled: cfg.settle(),
	}
	if err := r.SetupWithManager(mgr, children); err != nil {
		return fmt.Errorf("add reconciler of harborclusters: %w", err)
	}
	return nil
}
