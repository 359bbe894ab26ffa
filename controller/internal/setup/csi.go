package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/ceph/execpod"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/controller/internal/setup/filesystems"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/version"
)

// errNotReady says what the CSI controller waits for after its start.
var errNotReady = errors.New("waiting for the cache and the client certificate")

// RunCSI serves the CSI controller service until the context ends. It writes nothing to the API server but the Leases of shared groups.
func RunCSI(ctx context.Context, rc *rest.Config, cfg CSIConfig) error {
	mgr, err := newCSIManager(rc, cfg)
	if err != nil {
		return err
	}
	direct, err := client.New(rc, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	borrower := &pki.Borrower{Client: direct, Namespace: cfg.Namespace}
	// The calls in progress at the end are answered first: a change of a shared group whose answer is lost keeps the turn, and others wait.
	pool := agents.New(context.WithoutCancel(ctx), agents.Config{TLS: borrower.ClientConfig, GroupsOnly: true, Log: mgr.GetLogger().WithName("agents")})
	defer pool.Close()
	addresses := &frame.Addresses{Reader: mgr.GetClient(), Book: pool, Namespaces: agentsIn(cfg.Namespace, cfg.AgentNamespace), Port: cfg.AgentPort}
	if err := addresses.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("add watch of agents: %w", err)
	}
	synced := &atomic.Bool{}
	ready := func() bool { return synced.Load() && borrower.Ready() }
	if err := mgr.AddReadyzCheck("readyz", func(*http.Request) error {
		if !ready() {
			return errNotReady
		}
		return nil
	}); err != nil {
		return fmt.Errorf("add check readyz: %w", err)
	}
	start, err := execpod.Remote(rc)
	if err != nil {
		return fmt.Errorf("make what runs programs in pods: %w", err)
	}
	driver := servable[cfg.Driver]
	described, backend := driver.backend(csiWorld{
		reader: mgr.GetClient(), live: direct, namespace: cfg.Namespace, pod: cfg.PodName, pool: pool, log: mgr.GetLogger().WithName(cfg.Driver),
		runner: filesystems.NewMonitors(mgr.GetAPIReader(), start).Runner,
	})
	server := frame.New(frame.Config{
		Version: version.Version, Socket: cfg.Address, Ready: ready, Log: mgr.GetLogger().WithName("csi"), Registry: metrics.Registry,
		Reader: mgr.GetClient(), Live: direct,
	}, described, backend)
	if err := frame.IndexPersistentVolumes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := warm(ctx, mgr, append([]client.Object{&corev1.PersistentVolume{}}, driver.watched...), synced); err != nil {
		return err
	}
	rewind := &kube.Rewind{Live: direct, Namespace: cfg.Namespace, Pod: cfg.PodName}
	for name, r := range map[string]manager.Runnable{"certificate": borrower, "driver": server, "rewind": rewind} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	return mgr.Start(ctx)
}

// warm starts the informers that the driver answers from, and sets synced once they know everything.
func warm(ctx context.Context, mgr manager.Manager, watched []client.Object, synced *atomic.Bool) error {
	for _, o := range watched {
		if _, err := mgr.GetCache().GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		synced.Store(mgr.GetCache().WaitForCacheSync(ctx))
		return nil
	}))
}

func newCSIManager(rc *rest.Config, cfg CSIConfig) (manager.Manager, error) {
	s, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme: s, HealthProbeBindAddress: cfg.HealthAddress, Metrics: server.Options{BindAddress: cfg.MetricsAddress},
		// The manager has one controller. A process may have several managers, one per driver.
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {
					Namespaces: cachedIn(agentsIn(cfg.Namespace, cfg.AgentNamespace)),
					Label:      agentpod.Selector(),
					Transform:  stripPod,
				},
				&v1alpha1.StorageNode{}:    {Transform: stripStorageNode},
				&corev1.PersistentVolume{}: {Transform: stripRecorded},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add check healthz: %w", err)
	}
	return mgr, nil
}

// stripStorageNode keeps the spec of a node: what its agent reports is known first hand.
func stripStorageNode(o any) (any, error) {
	n, ok := o.(*v1alpha1.StorageNode)
	if !ok {
		return o, nil
	}
	return &v1alpha1.StorageNode{TypeMeta: n.TypeMeta, ObjectMeta: stripMeta(n.ObjectMeta), Spec: n.Spec}, nil
}
