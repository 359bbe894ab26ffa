// Package ceph makes Clusters of type cephfs real: it looks at the workloads, asks Ceph and the agents, and performs the steps that package
// decide/ceph/view decided on. It chooses no step; right before one that ends or removes something it looks once more whether the reason still stands.
package ceph

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// +kubebuilder:rbac:groups="",namespace=quarry-ceph,resources=configmaps;secrets;services,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=quarry-ceph,resources=secrets,verbs=list
// +kubebuilder:rbac:groups="",namespace=quarry-ceph,resources=pods,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=apps,namespace=quarry-ceph,resources=deployments,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=policy,namespace=quarry-ceph,resources=poddisruptionbudgets,verbs=get;list;create;patch;delete

// Agents is what the backend knows of agents.
type Agents interface {
	// Node returns what is known about a node.
	Node(name string) decide.Node
	// WipeDevice makes a device clean, and returns it as it is then.
	WipeDevice(ctx context.Context, node string, d decide.Device) (decide.Device, error)
}

// OSD is one that a Cluster has on a disk.
type OSD struct {
	// ClusterUID is the FSID of the Ceph cluster: the UID of the Cluster, or of the earlier one whose Ceph cluster it took up. The UUID follows from it.
	ClusterUID, UUID, FSID string
	// ID that Ceph gave it; negative while it has none.
	ID int
	// Encrypted: its disk is. Key opens that; it is there only where the disk is to be made the OSD.
	Encrypted bool
	Key       osd.Key
	// Making names the making of the OSD that is to be cleared; empty if the disk was seen clean.
	Making string
}

// Disks has agents work on the disks of OSDs. Errors are decide.Faults.
type Disks interface {
	// Inspect says what a disk is to the Cluster that wants the OSD on it.
	Inspect(ctx context.Context, node string, d decide.Device, o OSD) (osd.Verdict, error)
	// Clock says how far the clock of a node is ahead of this one.
	Clock(ctx context.Context, node string) (preflight.Clock, error)
	// Prepare makes the disk the OSD, with the programs of a container on the node. fresh: Ceph has never seen the OSD run.
	Prepare(ctx context.Context, node string, d decide.Device, o OSD, container string, fresh bool) error
	// Zap makes the disk of the OSD clean, if it carries the making that is meant.
	Zap(ctx context.Context, node string, d decide.Device, o OSD) error
}

// Config of a Backend.
type Config struct {
	Agents Agents
	Disks  Disks
	// Client writes to the API server, Live reads from it without a cache.
	Client client.Client
	Live   client.Reader
	// Runner returns what runs commands for the Ceph cluster with an FSID.
	Runner func(fsid string) ceph.Runner
	// AgentImage returns the image that the agent of a node runs; empty when there is none. Nil means that nobody knows it.
	AgentImage func(ctx context.Context, node string) (string, error)
	// Now returns the time; time.Now when it is nil. Random is that of the system when it is nil.
	Now    func() time.Time
	Random io.Reader
	// Patience is how long a look waits for what Ceph is asked; what takes longer is in the next look. Zero means three seconds.
	Patience time.Duration
	// Young is how long what Ceph said stands while something is under way; zero means five seconds.
	Young time.Duration
}

// Backend works on Ceph clusters.
type Backend struct {
	Config
	memory memory
}

// New makes a Backend.
func New(cfg Config) *Backend {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 3 * time.Second
	}
	if cfg.Young <= 0 {
		cfg.Young = young
	}
	return &Backend{Config: cfg, memory: memory{clusters: map[types.UID]*known{}}}
}

// Profile returns what the engine has to know of these Clusters.
func (b *Backend) Profile() backend.Profile { return view.Profile() }

// Snapshots reports whether a Cluster gets a VolumeSnapshotClass: every one does.
func (b *Backend) Snapshots(s v1alpha1.Storage) bool {
	c, ok := s.(*v1alpha1.Cluster)
	return ok && c.Spec.StorageType == v1alpha1.StorageTypeCephFS
}

// Forget drops what is remembered of a Cluster that is gone.
func (b *Backend) Forget(uid types.UID) { b.memory.forget(uid) }

// client makes the client of a Cluster's monitors.
func (b *Backend) client(uid string) (*ceph.Client, error) {
	return ceph.New(ceph.Config{Runner: b.Runner(uid), FSID: uid, Timeout: command})
}

// Observe looks at workloads and disks, and at what Ceph said: it is asked beside the look when that is old, or was changed by a step.
func (b *Backend) Observe(ctx context.Context, s v1alpha1.Storage, w backend.World, last backend.View) (backend.View, error) {
	c, ok := s.(*v1alpha1.Cluster)
	if !ok {
		return nil, fmt.Errorf("observe %s %s: not a Cluster", s.StorageKind(), s.GetName())
	}
	o := view.Observation{Cluster: c, World: w, Now: b.Now(), Nodes: map[string]decide.Node{}, Addresses: map[string]string{}, Machines: map[string]preflight.Machine{}, Keyless: map[string]string{}}
	for _, m := range w.Members {
		name := string(m.Spec.Node)
		o.Nodes[name] = b.Agents.Node(name)
		if err := b.machine(ctx, name, &o); err != nil {
			return nil, err
		}
	}
	for name, n := range w.Nodes {
		if _, known := o.Nodes[name]; !known && n.Exists {
			o.Nodes[name] = b.Agents.Node(name)
		}
	}
	var err error
	if o.Clients, err = b.clients(ctx, c, w); err != nil {
		return nil, err
	}
	if o.Workloads, err = b.workloads(ctx, c, w.Members); err != nil {
		return nil, err
	}
	k := b.memory.of(c.UID)
	o.Verdicts = b.inspect(ctx, c, w.Members, o.Nodes, k)
	o.Missing = b.missing(w.Members, o.Nodes, k)
	quiet := false
	if old, ok := last.(*view.View); ok && old != nil {
		quiet = old.Quiet()
	}
	b.clocks(ctx, k, quiet, &o)
	b.ask(ctx, c, w.Members, k, quiet, &o)
	v := view.New(o)
	more, err := b.inspectUnrecorded(ctx, c, v, k, &o)
	switch {
	case err != nil:
		return nil, err
	case more:
		return view.New(o), nil
	}
	return v, nil
}

// machine reads where a node is, and what it has. A node that Kubernetes does not know is nowhere.
func (b *Backend) machine(ctx context.Context, name string, o *view.Observation) error {
	n := &corev1.Node{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: name}, n); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && o.Addresses[name] == "" {
			o.Addresses[name] = a.Address
		}
	}
	o.Machines[name] = preflight.Machine{
		MemoryBytes: n.Status.Allocatable.Memory().Value(), OS: n.Status.NodeInfo.OperatingSystem, Architecture: n.Status.NodeInfo.Architecture,
	}
	return nil
}

// Fill writes what only a Cluster of type cephfs has in its status.
func (b *Backend) Fill(s v1alpha1.Storage, v backend.View, _ backend.World) {
	c, ok := s.(*v1alpha1.Cluster)
	seen, known := v.(*view.View)
	if ok && known && seen != nil {
		seen.Fill(c)
	}
}
