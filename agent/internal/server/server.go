// Package server is the agent's side of the contract in proto/agent/v1. Every call that changes something follows one recipe:
// validate, lock, observe, plan, apply, observe again and answer with what is seen then. The package knows neither the tools that
// work on disks nor Kubernetes; it keeps no state but the newest view of the node for its watchers.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"quarry.storage/quarry/agent/internal/plan"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Observer sees the node.
type Observer interface {
	// Observe reads everything afresh. Only one observation is made at a time.
	Observe(ctx context.Context) (plan.Snapshot, error)
	// Watch signals that something may have changed, until the context ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// GroupObserver sees one group.
type GroupObserver interface {
	// ObserveGroup reads afresh what the group, as it was seen before, is now. It fails when the group is another one by now.
	ObserveGroup(ctx context.Context, was plan.Group) (plan.Group, error)
}

// Applier performs plans.
type Applier interface {
	Apply(ctx context.Context, p plan.Plan) error
}

// LVM tells its version, or why it cannot be run.
type LVM interface {
	Version(ctx context.Context) (string, error)
}

// Config is what a Server is made of.
type Config struct {
	// NodeName and Version of the agent.
	NodeName, Version string
	// KernelRelease and BootID of the node.
	KernelRelease, BootID string
	// Policy judges devices.
	Policy   plan.Policy
	Observer Observer
	// Groups observes one group in a cheaper way; everything is observed instead when it is nil.
	Groups  GroupObserver
	Applier Applier
	LVM     LVM
	// Resolve follows the links of device paths.
	Resolve Resolver
	Log     logr.Logger
	// Registry takes the metrics; they are not kept when it is nil.
	Registry prometheus.Registerer
}

// Server serves the agent's services.
type Server struct {
	cfg     Config
	hub     *hub
	locks   *locks
	metrics *metrics
}

const (
	// stopTimeout is how long a stop waits for calls in progress.
	stopTimeout = 20 * time.Second
	// applyTimeout bounds the changes of one call; they go on when the caller goes away, for a command that is killed halfway
	// is worse than one that ends.
	applyTimeout = 10 * time.Minute
	// bufferBytes is for each direction of a connection; one controller is all that connects.
	bufferBytes = 8 << 10
)

// New makes a Server; Serve makes it work.
func New(cfg Config) *Server {
	cfg.Log = cfg.Log.WithValues("node", cfg.NodeName)
	m := newMetrics(cfg.Registry)
	return &Server{cfg: cfg, metrics: m, locks: &locks{}, hub: newHub(cfg.Observer, cfg.Policy, m.seen)}
}

// Serve answers calls on the listener until the context ends, then waits for those in progress. A Server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := s.newGRPC(config)
	watched := make(chan error, 1)
	go func() {
		watched <- s.hub.run(ctx)
		cancel()
	}()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		stop(g)
	}()
	err := g.Serve(listener)
	cancel()
	<-stopped
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		err = fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return errors.Join(err, <-watched)
}

// stop lets calls finish; watchers are sent home by the hub.
func stop(g *grpc.Server) {
	timer := time.AfterFunc(stopTimeout, g.Stop)
	defer timer.Stop()
	g.GracefulStop()
}

func (s *Server) newGRPC(config *tls.Config) *grpc.Server {
	guard := guard{log: s.cfg.Log, metrics: s.metrics}
	g := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.UnaryInterceptor(guard.unary),
		grpc.StreamInterceptor(guard.stream),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	agentv1.RegisterNodeServiceServer(g, &nodeService{Server: s})
	agentv1.RegisterDeviceServiceServer(g, &deviceService{Server: s})
	agentv1.RegisterVolumeGroupServiceServer(g, &volumeGroupService{Server: s})
	agentv1.RegisterLogicalVolumeServiceServer(g, &logicalVolumeService{Server: s})
	healthpb.RegisterHealthServer(g, health.NewServer())
	reflection.Register(g)
	return g
}

// change is the recipe of every call that changes something. It answers what is seen on the node afterwards, and what was decided.
func (s *Server) change(
	ctx context.Context, keys []string, decide func(plan.Snapshot) (plan.Plan, error),
) (plan.Snapshot, plan.Plan, error) {
	unlock, err := s.locks.tryLock(keys...)
	if err != nil {
		return plan.Snapshot{}, plan.Plan{}, err
	}
	defer unlock()
	defer s.hub.changes.begin()()
	before, err := s.hub.observe(ctx)
	if err != nil {
		return plan.Snapshot{}, plan.Plan{}, err
	}
	p, err := decide(before)
	if err != nil || len(p.Steps) == 0 {
		return before, p, err
	}
	after, err := s.perform(ctx, p)
	return after, p, err
}
