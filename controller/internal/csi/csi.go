// Package csi is the CSI identity and controller service of local volumes, as the standard sidecars call it. It keeps no state: what
// is wanted comes from the informer cache, what is there from the agents, and both guards and repetition are the agents' matter, so
// that any number of replicas may run. It does not know the wire to the agents.
package csi

import (
	"cmp"
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Agents is what is known of nodes, and what can be done to volumes there. Errors of calls are decide.Faults.
type Agents interface {
	// Node returns what is known about a node.
	Node(name string) decide.Node
	// ListVolumes observes the volumes of ours, in one group or, when that is empty, in all.
	ListVolumes(ctx context.Context, node, group string) ([]decide.Volume, []decide.ThinPool, error)
	// CreateVolume makes a volume or a snapshot.
	CreateVolume(ctx context.Context, node string, v decide.VolumeSpec) (decide.Volume, error)
	// DeleteVolume removes one.
	DeleteVolume(ctx context.Context, node string, v decide.VolumeSpec) error
	// ResizeVolume makes a volume larger.
	ResizeVolume(ctx context.Context, node string, v decide.VolumeSpec) (decide.Volume, error)
}

// Config is what a Driver is made of.
type Config struct {
	// Name of the driver; v1alpha1.DriverLVM when empty.
	Name string
	// Version of the controller.
	Version string
	// Socket to listen on.
	Socket string
	// Reader answers from the cache: Clusters and StorageNodes.
	Reader client.Reader
	// Agents of the nodes.
	Agents Agents
	// Ready says whether the cache and the certificates are there.
	Ready func() bool
	Log   logr.Logger
	// Registry takes the metrics; they are not kept when it is nil.
	Registry prometheus.Registerer
}

// Driver serves one CSI driver to its sidecars.
type Driver struct {
	cfg     Config
	locks   locks
	metrics *metrics
}

// New makes a Driver; Start makes it work.
func New(cfg Config) *Driver {
	cfg.Name = cmp.Or(cfg.Name, v1alpha1.DriverLVM)
	cfg.Log = cfg.Log.WithValues("driver", cfg.Name)
	return &Driver{cfg: cfg, metrics: newMetrics(cfg.Registry, cfg.Name)}
}

// NeedLeaderElection says that every replica serves its own sidecars.
func (d *Driver) NeedLeaderElection() bool { return false }

// Start serves until the context ends; calls in progress are waited for.
func (d *Driver) Start(ctx context.Context) error {
	listener, err := listen(d.cfg.Socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.handle))
	csi.RegisterIdentityServer(server, &identity{Driver: d})
	csi.RegisterControllerServer(server, &controller{Driver: d})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	d.cfg.Log.Info("Serving the sidecars", "socket", d.cfg.Socket)
	select {
	case <-ctx.Done():
		stop(server)
		return nil
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", d.cfg.Socket, err)
	}
}

// controller is the CSI controller service.
type controller struct {
	csi.UnimplementedControllerServer
	*Driver
}

// ControllerGetCapabilities tells what the service can do. Volumes are not attached: they are where their node is.
func (*controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_VOLUME_CONDITION,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}
