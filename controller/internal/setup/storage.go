package setup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/backend/lvm"
	"quarry.storage/quarry/controller/internal/backend/nfs"
	"quarry.storage/quarry/controller/internal/ceph/execpod"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/cluster"
	"quarry.storage/quarry/controller/internal/reconcile/driver"
	lunreconcile "quarry.storage/quarry/controller/internal/reconcile/iscsi"
	"quarry.storage/quarry/controller/internal/reconcile/member"
	sharereconcile "quarry.storage/quarry/controller/internal/reconcile/nfs"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/controller/internal/setup/filesystems"
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

// binding puts one kind of storages together.
type binding struct {
	// bind makes the reconciler of the kind.
	bind func(storage.Config) *storage.Reconciler
	// backends of the kind. Each has a CSI driver of its own.
	backends []storage.Backend
}

// clients gives a client, and a reader that always asks the API server, as a manager does.
type clients interface {
	GetClient() client.Client
	GetAPIReader() client.Reader
}

// direct is a client that reads from the API server itself.
type direct struct {
	client.Client
	live client.Reader
}

// Get reads an object.
func (d direct) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return d.live.Get(ctx, key, o, options...)
}

// List reads a list.
func (d direct) List(ctx context.Context, l client.ObjectList, options ...client.ListOption) error {
	return d.live.List(ctx, l, options...)
}

// bindings returns all kinds of storages, for a process with a Config. A new kind is added here.
func bindings(m clients, pool *agents.Pool, cfg Config, start execpod.Starter) []binding {
	local := &lvm.Backend{
		Agents: pool, Changer: pool, Records: lvm.Recorder{Client: m.GetClient(), Live: m.GetAPIReader()}, Client: m.GetAPIReader(),
	}
	shares := &nfs.Backend{Agents: pool, Now: time.Now}
	luns := sharedLuns(m, pool, cfg.Namespace, cfg.PodName)
	files := filesystems.Backend(m, pool, start, agentsIn(cfg.Namespace, cfg.AgentNamespace))
	return []binding{
		{
			bind: func(c storage.Config) *storage.Reconciler {
				return cluster.New(c, cluster.Backends{v1alpha1.StorageTypeLVM: local, v1alpha1.StorageTypeCephFS: files})
			},
			backends: []storage.Backend{local, files},
		},
		{
			bind:     func(c storage.Config) *storage.Reconciler { return sharereconcile.New(c, shares) },
			backends: []storage.Backend{shares},
		},
		{
			bind:     func(c storage.Config) *storage.Reconciler { return lunreconcile.New(c, luns) },
			backends: []storage.Backend{luns},
		},
	}
}

// entries returns the table of the CSI drivers.
func entries(all []binding) []driver.Entry {
	var out []driver.Entry
	for _, one := range all {
		for _, b := range one.backends {
			e := driver.Entry{Profile: b.Profile()}
			if s, ok := b.(interface{ Snapshots(s v1alpha1.Storage) bool }); ok {
				e.Snapshots = s.Snapshots
			}
			out = append(out, e)
		}
	}
	return out
}

// kinds are the reconcilers of storages, by kind.
type kinds map[string]*storage.Reconciler

// profile returns the profile of a storage. It reports false for a storage without a backend, and for one of a kind that is not bound.
func (k kinds) profile(s v1alpha1.Storage) (backend.Profile, bool) {
	r := k[s.StorageKind()]
	if r == nil {
		return backend.Profile{}, false
	}
	if b, _ := r.BackendOf(s); b != nil {
		return b.Profile(), true
	}
	c, ok := s.(*v1alpha1.Cluster)
	if !ok {
		return backend.Profile{}, false
	}
	// Its backend does not exist yet; what it wants excludes other types from its hosts all the same.
	return backend.Profile{Type: c.Spec.StorageType, Exclusive: true}, true
}

// check returns an error when a kind of storages has no reconciler: hosts that its storages use would be given to others.
func (k kinds) check(scheme *runtime.Scheme) error {
	objects, err := kube.StorageKinds(scheme)
	if err != nil {
		return err
	}
	for _, o := range objects {
		s, ok := o.(v1alpha1.Storage)
		if !ok {
			return fmt.Errorf("%T is in v1alpha1.StorageLists and is no Storage", o)
		}
		if k[s.StorageKind()] == nil {
			return fmt.Errorf("kind %s is in v1alpha1.StorageLists and has no reconciler: bind it to its backend", s.StorageKind())
		}
	}
	return nil
}

// storages binds all kinds of storages, and adds the reconcilers of those that run. A kind that is switched off stays in k: hosts and drivers are
// shared out by what its storages say, whoever looks after them.
func storages(
	ctx context.Context, mgr manager.Manager, own Config, pool *agents.Pool, all []binding, k kinds, drivers storage.Drivers, j *jobs, members *tellings, recorded records,
) error {
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
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Records: recorded.api, Recorded: recorded.cached, Drivers: drivers, Events: mgr.GetEventRecorder("quarry-controller"),
		Now: time.Now, Profiles: k.profile, Told: &members.told, Watched: &members.watched,
	}
	for _, one := range all {
		c := cfg
		c.Work = work.New(ctx, time.Now)
		j.all = append(j.all, c.Work)
		r := one.bind(c)
		k[r.New().StorageKind()] = r
	}
	if err := k.check(mgr.GetScheme()); err != nil {
		return err
	}
	for kind, r := range k {
		if !own.runsKind(kind) {
			continue
		}
		if err := r.SetupWithManager(mgr, pool.Changes()); err != nil {
			return fmt.Errorf("add reconciler of %s: %w", kind, err)
		}
	}
	orphans := &member.Reconciler{Client: cfg.Client, Live: cfg.Live, Events: cfg.Events}
	if err := orphans.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("add reconciler of members: %w", err)
	}
	return nil
}
