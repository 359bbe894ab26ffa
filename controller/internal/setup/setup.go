// Package setup wires the controller: the manager with its cache, the certificate authority, the pool of agents and the
// reconcilers. It decides nothing.
package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/ceph/execpod"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/controller/internal/reconcile/certificate"
	"quarry.storage/quarry/controller/internal/reconcile/driver"
	"quarry.storage/quarry/controller/internal/reconcile/handover"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/controller/internal/reconcile/storagenode"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",namespace=quarry-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=quarry-system,resources=secrets,resourceNames=quarry-ca;quarry-controller-client;quarry-csi-client,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=quarry-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quarry-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quarry-system,resources=leases,resourceNames=quarry-controller,verbs=get;update

// handoverPause is between two looks at agents of before, while there are some.
const handoverPause = 2 * time.Second

// Run runs the controller until the context ends.
func Run(ctx context.Context, rc *rest.Config, cfg Config) error {
	mgr, err := newManager(rc, cfg)
	if err != nil {
		return err
	}
	stop, err := register(ctx, mgr, cfg)
	if err != nil {
		return err
	}
	defer stop()
	return mgr.Start(ctx)
}

// Start begins the log, loads the cluster's credentials and runs until a signal comes.
func Start(verbosity int, run func(context.Context, *rest.Config) error) error {
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity)))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	rc, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("load cluster credentials: %w", err)
	}
	return run(ctrl.SetupSignalHandler(), rc)
}

// Scheme knows the kinds that the controller uses.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddToScheme(s)
}

func newManager(rc *rest.Config, cfg Config) (manager.Manager, error) {
	s, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	// One object per node is written after a restart; the client's own default would make that take minutes.
	rc.QPS, rc.Burst = 200, 400
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme: s, Cache: cacheOptions(cfg), HealthProbeBindAddress: cfg.HealthAddress,
		Metrics:        server.Options{BindAddress: cfg.MetricsAddress},
		Controller:     config.Controller{SkipNameValidation: &cfg.again},
		LeaderElection: cfg.LeaderElection, LeaderElectionID: "quarry-controller", LeaderElectionNamespace: cfg.Namespace,
		// The process ends when the manager does, so the next leader need not wait.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"healthz": mgr.AddHealthzCheck, "readyz": mgr.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("add check %s: %w", name, err)
		}
	}
	return mgr, nil
}

// cacheOptions keep in memory only what the reconcilers look at.
func cacheOptions(cfg Config) cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {
				Namespaces: cachedIn(agentsIn(cfg.Namespace, cfg.AgentNamespace)),
				Label:      agentpod.Selector(),
				Transform:  stripPod,
			},
			&certificatesv1.CertificateSigningRequest{}: {
				Field: fields.OneTermEqualSelector("spec.signerName", v1alpha1.SignerAgent),
			},
			&corev1.Node{}:                  {Transform: kube.StripNode},
			&corev1.PersistentVolume{}:      {Transform: stripVolume},
			&corev1.PersistentVolumeClaim{}: {Transform: stripClaim},
			&appsv1.Deployment{}: {
				Namespaces: map[string]cache.Config{cfg.Namespace: {}},
				Label:      exists(v1alpha1.LabelDriver),
			},
		},
	}
}

// exists selects the objects that have a label.
func exists(label string) labels.Selector {
	s, err := labels.Parse(label)
	if err != nil {
		// The label is a constant of ours; a selector of nothing would hide every object.
		panic(fmt.Sprintf("label %s: %v", label, err))
	}
	return s
}

// stripPod keeps where the pod runs.
func stripPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		TypeMeta: p.TypeMeta, ObjectMeta: stripMeta(p.ObjectMeta),
		Spec:   corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status: corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP},
	}, nil
}

// stripVolume keeps which class and driver a volume is of, where it lives, and whether it has to be there.
func stripVolume(o any) (any, error) {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok {
		return o, nil
	}
	out := &corev1.PersistentVolume{TypeMeta: v.TypeMeta, ObjectMeta: stripMeta(v.ObjectMeta)}
	out.Spec.StorageClassName, out.Spec.NodeAffinity = v.Spec.StorageClassName, v.Spec.NodeAffinity
	out.Spec.PersistentVolumeReclaimPolicy, out.Status.Phase = v.Spec.PersistentVolumeReclaimPolicy, v.Status.Phase
	if c := v.Spec.ClaimRef; c != nil {
		out.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name}
	}
	if v.Spec.CSI != nil {
		out.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v.Spec.CSI.Driver, VolumeHandle: v.Spec.CSI.VolumeHandle}
		if strings.HasSuffix(v.Spec.CSI.Driver, "."+v1alpha1.Group) {
			out.Spec.CSI.VolumeAttributes = v.Spec.CSI.VolumeAttributes
		}
	}
	return out, nil
}

func stripMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.ManagedFields, m.Annotations = nil, nil
	return m
}

// register adds everything that runs to the manager. The returned function ends what outlives it.
func register(ctx context.Context, mgr manager.Manager, cfg Config) (stop func(), err error) {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	keeper := &pki.Keeper{Client: direct, Namespace: cfg.Namespace, Now: time.Now}
	if err := mgr.Add(keeper); err != nil {
		return nil, fmt.Errorf("add certificate authority: %w", err)
	}
	if err := mgr.Add(&kube.Rewind{Live: direct, Namespace: cfg.Namespace, Pod: cfg.PodName}); err != nil {
		return nil, fmt.Errorf("add watch for a restored API server: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Member{}, indexMemberLUN, lunOfMember); err != nil {
		return nil, fmt.Errorf("index members by LUN: %w", err)
	}
	pool := agents.New(ctx, agents.Config{
		MeantToBeShared: lunInUse(ctx, mgr.GetClient()),
		TLS:             keeper.ClientConfig, Log: mgr.GetLogger().WithName("agents"),
		RequestID: func(ctx context.Context) string { return string(controller.ReconcileIDFromContext(ctx)) },
	})
	if err := mgr.Add(&handover.Runner{
		Client: direct, Earlier: cfg.Namespace, Later: cfg.AgentNamespace, Pause: handoverPause, Log: mgr.GetLogger().WithName("handover"),
	}); err != nil {
		return nil, fmt.Errorf("add handover of agents: %w", err)
	}
	jobs := &jobs{}
	stop = func() {
		jobs.Close()
		pool.Close()
	}
	if err := reconcilers(ctx, mgr, cfg, keeper, pool, jobs); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func reconcilers(ctx context.Context, mgr manager.Manager, cfg Config, keeper *pki.Keeper, pool *agents.Pool, jobs *jobs) error {
	certificates := &certificate.Reconciler{
		Client: mgr.GetClient(), Authority: keeper, Now: time.Now,
		Policy: pki.Policy{AgentUser: fmt.Sprintf("system:serviceaccount:%s:%s", cfg.AgentNamespace, cfg.AgentServiceAccount)},
	}
	if err := certificates.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("add reconciler of certificates: %w", err)
	}
	recorded, err := recordsOf(mgr)
	if err != nil {
		return err
	}
	nodes := &storagenode.Reconciler{
		Client: mgr.GetClient(), Records: recorded.api, Pool: pool, Namespaces: agentsIn(cfg.Namespace, cfg.AgentNamespace), Port: cfg.AgentPort,
		Iscsi: iscsiOf(ctx, mgr.GetClient()),
	}
	if err := nodes.SetupWithManager(ctx, mgr, recorded.cached, pool.Changes()); err != nil {
		return fmt.Errorf("add reconciler of storagenodes: %w", err)
	}
	start, err := execpod.Remote(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("make what runs programs in pods: %w", err)
	}
	all, byKind := bindings(mgr, pool, cfg, start), kinds{}
	table := entries(all)
	found, err := images(ctx, mgr.GetAPIReader(), cfg)
	if err != nil {
		return err
	}
	drivers, err := csiDrivers(mgr, cfg, found, table, byKind.profile)
	if err != nil {
		return err
	}
	members := &tellings{}
	errs := []error{storages(ctx, mgr, cfg, pool, all, byKind, drivers, jobs, members, recorded)}
	for name, add := range map[string]func() error{
		controllerPin:      func() error { return pins(ctx, mgr, table) },
		controllerStateful: func() error { return statefulClusters(ctx, mgr, cfg, members) },
		controllerHarbor:   func() error { return harborClusters(mgr, cfg) },
		controllerGluster:  func() error { return glusterClusters(mgr, pool, found) },
	} {
		if cfg.runs(name) {
			errs = append(errs, add())
		}
	}
	if off := cfg.off(); len(off) > 0 {
		mgr.GetLogger().WithName("setup").Info("Controllers are switched off: nobody looks after their objects", "controllers", off)
	}
	return errors.Join(errs...)
}

// csiDrivers adds the reconciler of CSI drivers. of returns the profile of a storage.
func csiDrivers(
	mgr manager.Manager, cfg Config, found driver.Images, table []driver.Entry, of func(v1alpha1.Storage) (backend.Profile, bool),
) (storage.Drivers, error) {
	drivers := &driver.Reconciler{
		Client: mgr.GetClient(), Namespace: cfg.Namespace, AgentNamespace: cfg.AgentNamespace, Images: found, Verbosity: cfg.Verbosity,
		Of: of, Entries: table,
	}
	if err := drivers.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("add reconciler of drivers: %w", err)
	}
	return drivers, nil
}
