package setup

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/backend/lvm"
	"quarry.storage/quarry/controller/internal/backend/nfs"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/reconcile/cluster"
	"quarry.storage/quarry/controller/internal/reconcile/member"
	sharereconcile "quarry.storage/quarry/controller/internal/reconcile/nfs"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// jobs are the steps that are being performed, by kind of storage. They outlive the reconciles that started them.
type jobs struct{ all []*work.Work }

// Close ends all jobs and waits for them.
func (j *jobs) Close() {
	for _, w := range j.all {
		w.Close()
	}
}

// storages adds the reconcilers of all kinds of storages. A new kind needs its backend and its reconciler here.
func storages(ctx context.Context, mgr manager.Manager, pool *agents.Pool, b backends, drivers storage.Drivers, j *jobs) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Member{}, storage.IndexMemberNode, func(o client.Object) []string {
		if m, ok := o.(*v1alpha1.Member); ok {
			return []string{string(m.Spec.Node)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index members: %w", err)
	}
	cfg := storage.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Drivers: drivers, Events: mgr.GetEventRecorder("quarry-controller"),
		Now: time.Now, Profiles: b.profile,
	}
	for _, make := range []func(storage.Config) *storage.Reconciler{
		func(c storage.Config) *storage.Reconciler {
			return cluster.New(c, cluster.Backends{v1alpha1.StorageTypeLVM: b.local})
		},
		func(c storage.Config) *storage.Reconciler { return sharereconcile.New(c, b.shares) },
	} {
		c := cfg
		c.Work = work.New(ctx, time.Now)
		j.all = append(j.all, c.Work)
		r := make(c)
		if err := r.SetupWithManager(mgr, pool.Changes()); err != nil {
			return fmt.Errorf("add reconciler of %s: %w", r.New().StorageKind(), err)
		}
	}
	orphans := &member.Reconciler{Client: cfg.Client, Live: cfg.Live, Events: cfg.Events}
	if err := orphans.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("add reconciler of members: %w", err)
	}
	return nil
}

// backends are the backends of all kinds of storages.
type backends struct {
	local  *lvm.Backend
	shares *nfs.Backend
}

func newBackends(mgr manager.Manager, pool *agents.Pool) backends {
	return backends{
		local:  &lvm.Backend{Agents: pool, Changer: pool, Client: mgr.GetClient()},
		shares: &nfs.Backend{Agents: pool, Now: time.Now},
	}
}

// profile returns the profile of a storage; false for one that has none.
func (b backends) profile(s v1alpha1.Storage) (backend.Profile, bool) {
	c, ok := s.(*v1alpha1.Cluster)
	switch {
	case !ok:
		return b.shares.Profile(), s.StorageKind() == v1alpha1.KindNfs
	case c.Spec.StorageType == v1alpha1.StorageTypeLVM:
		return b.local.Profile(), true
	}
	// Its backend does not exist yet; what it wants excludes other types from its hosts all the same.
	return backend.Profile{Type: c.Spec.StorageType, Exclusive: true}, true
}
