// Package frame is the controller side of every CSI driver of Quarry: the identity and the controller service, as the standard
// sidecars call them, over a small Backend per storage. It validates requests, locks volumes, pages lists and maps errors to codes. It
// keeps no state, so that any number of replicas may run. It knows neither a storage type nor the wire to the agents.
package frame

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/csirpc"
)

// socketMode lets every container of the pod connect: the sidecars may run as other users. Nobody else sees the pod's volume.
const socketMode = 0o666

// longest bounds a call whose caller sets no deadline. The sidecars set 60 s.
const longest = 2 * time.Minute

// sweepPause is the time between two sweeps.
const sweepPause = time.Minute

// Config says how a driver is served.
type Config struct {
	// Version of the controller.
	Version string
	// Socket to listen on.
	Socket string
	// Reader reads from a cache with the index of IndexPersistentVolumes: whether a volume may be deleted depends on it.
	Reader client.Reader
	// Live asks the API server itself, which may lack the snapshot API. Whether a volume or a snapshot may be deleted depends on it.
	Live client.Reader
	// Ready reports whether the backend knows enough to answer; nil is always.
	Ready func() bool
	Log   logr.Logger
	// Registry takes the metrics; nil keeps them from being published.
	Registry prometheus.Registerer
}

// Server serves one driver to its sidecars.
type Server struct {
	cfg   Config
	calls csirpc.Calls
	// pause is sweepPause, and shorter in tests.
	pause time.Duration
	driver
}

// driver is what the services work with. The optional parts of the backend are nil when it does not have them.
type driver struct {
	Driver
	backend   Backend
	snapshots Snapshotter
	measurer  Measurer
	attacher  Attacher
	locks     *csirpc.Locks
	// persistent are the PersistentVolumes of the driver as the cache has them, live those that the API server has.
	persistent PersistentVolumes
	live       *latest
	// contents are its VolumeSnapshotContents.
	contents SnapshotContents
}

// New makes a Server; Start makes it work.
func New(cfg Config, d Driver, b Backend) *Server {
	s := &Server{
		cfg: cfg, pause: sweepPause, driver: driver{
			Driver: d, backend: b, locks: &csirpc.Locks{}, persistent: PersistentVolumes{Reader: cfg.Reader, Driver: d.Name},
			live:     newLatest(PersistentVolumes{Reader: cfg.Live, Driver: d.Name}),
			contents: SnapshotContents{Reader: cfg.Live, Driver: d.Name},
		},
		calls: csirpc.Calls{
			Process: "controller", Log: cfg.Log.WithValues("driver", d.Name), Code: codeOf, Longest: longest,
			Metrics: csirpc.NewMetrics(cfg.Registry, "quarry_csi", "the sidecars", d.Name),
		},
	}
	s.snapshots, _ = b.(Snapshotter)
	s.measurer, _ = b.(Measurer)
	s.attacher, _ = b.(Attacher)
	return s
}

// NeedLeaderElection says that every replica serves its own sidecars.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends, and waits for calls in progress.
func (s *Server) Start(ctx context.Context) error {
	served, err := csirpc.Serve(s.cfg.Socket, socketMode, s.Services())
	if err != nil {
		return err
	}
	// A sweep may be changing something, too.
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer served.Stop()
	s.calls.Log.Info("Serving the sidecars", "socket", s.cfg.Socket)
	if b, ok := s.backend.(Sweeper); ok {
		sweeping.Go(func() { s.sweep(ctx, b) })
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-served.Failed():
		return fmt.Errorf("driver %s: %w", s.Name, err)
	}
}

// sweep lets a backend sweep until the context ends. What is in the way of that is logged once, as long as it is the same.
func (s *Server) sweep(ctx context.Context, b Sweeper) {
	told := ""
	for tick := time.NewTicker(s.pause); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		if s.cfg.Ready != nil && !s.cfg.Ready() {
			continue
		}
		removed, err := b.Sweep(ctx)
		for _, handle := range removed {
			s.calls.Log.Info("Removed a volume that nobody was told of, for its claim has one elsewhere", "volume", handle)
		}
		switch {
		case err == nil:
			told = ""
		case ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			s.calls.Log.Error(err, "Sweeping volumes that nobody was told of")
		}
	}
}

// Services returns a new gRPC server with the driver's services, to be served by the caller.
func (s *Server) Services() *grpc.Server {
	g := grpc.NewServer(grpc.UnaryInterceptor(s.calls.Handle))
	csi.RegisterIdentityServer(g, csirpc.NewIdentity(csirpc.Plugin{
		Name: s.Name, Version: s.cfg.Version, Topology: s.Topology != "", Expansion: true, Ready: s.cfg.Ready,
	}))
	csi.RegisterControllerServer(g, &controller{driver: s.driver})
	return g
}

// controller is the CSI controller service. The calls that a driver does not offer return UNIMPLEMENTED.
type controller struct {
	csi.UnimplementedControllerServer
	driver
}

// ControllerGetCapabilities returns what the service can do.
func (d *controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range d.capabilities() {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

func (d *driver) capabilities() []csi.ControllerServiceCapability_RPC_Type {
	out := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_VOLUME_CONDITION,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if d.Clones {
		out = append(out, csi.ControllerServiceCapability_RPC_CLONE_VOLUME)
	}
	if d.snapshots != nil {
		out = append(out, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
			csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, csi.ControllerServiceCapability_RPC_GET_SNAPSHOT)
	}
	if d.measurer != nil {
		out = append(out, csi.ControllerServiceCapability_RPC_GET_CAPACITY)
	}
	if d.attacher != nil {
		out = append(out, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	}
	if d.attacher != nil && d.AttachReadOnly {
		out = append(out, csi.ControllerServiceCapability_RPC_PUBLISH_READONLY)
	}
	return out
}
