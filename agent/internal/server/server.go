// Package server is the agent's side of the contract in proto/agent/v1, and no more: it validates requests, converts them for the engine
// in package node, converts what the engine returns, and maps errors to codes. It knows neither the tools that work on disks nor
// Kubernetes, and keeps no state.
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
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/server/access"
	"quarry.storage/quarry/agent/internal/server/iscsi"
	"quarry.storage/quarry/agent/internal/server/osd"
	"quarry.storage/quarry/agent/internal/server/sharedgroup"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// LVM tells its version, or why it cannot be run.
type LVM interface {
	Version(ctx context.Context) (string, error)
}

// Luns works on iSCSI targets and their LUNs. Errors are those of package sharedlun.
type Luns = iscsi.Node

// Config is what a Server is made of.
type Config struct {
	// NodeName and Version of the agent.
	NodeName, Version string
	// KernelRelease and BootID of the node.
	KernelRelease, BootID string
	// Luns works on iSCSI targets and their LUNs; the services are not served when it is nil.
	Luns Luns
	// Node is the engine that does the work. The server runs it.
	Node *node.Engine
	LVM  LVM
	// Shares works on NFS shares; the service is not served when it is nil.
	Shares SharedDirectories
	// SharedGroups works on the groups of shared LUNs; the service is not served when it is nil.
	SharedGroups sharedgroup.Groups
	// Uptime tells how long ago the node booted, on the clock of plan.Device.Appeared; nobody is told when it is nil.
	Uptime func() (time.Duration, error)
	// Now is the clock of the node; time.Now when it is nil.
	Now func() time.Time
	// HandshakeFailed is told of every handshake that fails; it may be nil.
	HandshakeFailed func(error)
	Log             logr.Logger
	// Registry takes the metrics; they are not kept when it is nil.
	Registry prometheus.Registerer
}

// Server serves the agent's services.
type Server struct {
	cfg     Config
	node    *node.Engine
	metrics *metrics
}

const (
	// stopTimeout is how long a stop waits for calls in progress.
	stopTimeout = 20 * time.Second
	// bufferBytes is for each direction of a connection. Few clients connect.
	bufferBytes = 8 << 10
	// maxConnections and maxStreams bound what clients hold: the controllers, the CSI drivers and a person have one connection each. A
	// client has handshakeTimeout for showing its certificate.
	maxConnections   = 64
	maxStreams       = 256
	handshakeTimeout = 10 * time.Second
	// maxRequestBytes and maxHeaderBytes bound one call: the devices of a large group fit.
	maxRequestBytes = 1 << 20
	maxHeaderBytes  = 16 << 10
)

// New makes a Server; Serve makes it work.
func New(cfg Config) *Server {
	cfg.Log = cfg.Log.WithValues("node", cfg.NodeName)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, node: cfg.Node, metrics: newMetrics(cfg.Registry)}
	s.node.OnView(func(seen plan.Snapshot) { s.metrics.seen(seen, s.node.Policy()) })
	return s
}

// Serve runs the engine and serves calls on the listener until the context ends, then waits for calls in progress. A Server serves
// once.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := s.newGRPC(config)
	watched := make(chan error, 1)
	go func() {
		watched <- s.node.Run(ctx)
		cancel()
	}()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		stop(g)
	}()
	err := g.Serve(access.Limit(listener, maxConnections))
	cancel()
	<-stopped
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		err = fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return errors.Join(err, <-watched)
}

// stop lets calls finish. The engine ends the watches.
func stop(g *grpc.Server) {
	timer := time.AfterFunc(stopTimeout, g.Stop)
	defer timer.Stop()
	g.GracefulStop()
}

func (s *Server) newGRPC(config *tls.Config) *grpc.Server {
	guard := guard{log: s.cfg.Log, metrics: s.metrics}
	g := grpc.NewServer(
		grpc.Creds(access.Credentials(config, s.cfg.HandshakeFailed)),
		grpc.UnaryInterceptor(guard.unary),
		grpc.StreamInterceptor(guard.stream),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	agentv1.RegisterNodeServiceServer(g, &nodeService{Server: s})
	agentv1.RegisterDeviceServiceServer(g, &deviceService{Server: s})
	agentv1.RegisterVolumeGroupServiceServer(g, &volumeGroupService{Server: s})
	agentv1.RegisterLogicalVolumeServiceServer(g, &logicalVolumeService{Server: s})
	osd.Register(g, s.cfg.NodeName, s.node, validIdentities)
	iscsi.Register(g, s.cfg.Luns, s.cfg.BootID)
	if s.cfg.Shares != nil {
		agentv1.RegisterSharedDirectoryServiceServer(g, &sharedDirectoryService{shares: s.cfg.Shares})
	}
	if s.cfg.SharedGroups != nil {
		agentv1.RegisterSharedGroupServiceServer(g, &sharedgroup.Service{Groups: s.cfg.SharedGroups})
	}
	healthpb.RegisterHealthServer(g, health.NewServer())
	reflection.Register(g)
	return g
}
