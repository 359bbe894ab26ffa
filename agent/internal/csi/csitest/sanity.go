package csitest

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/host/mount"
)

// ServeController serves a controller service beside a driver's socket until the test ends, with an identity service that describes the driver as the node's does.
// It returns the socket.
func ServeController(t *testing.T, endpoint string, identity csi.IdentityClient, service csi.ControllerServer) string {
	t.Helper()
	socket := filepath.Join(filepath.Dir(endpoint), "controller.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	csi.RegisterIdentityServer(g, &described{client: identity})
	csi.RegisterControllerServer(g, service)
	go func() {
		if err := g.Serve(listener); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(g.Stop)
	return socket
}

// Offers is the part of a controller service that tells what it can do: volumes are made, removed and expanded.
type Offers struct {
	csi.UnimplementedControllerServer
	// Also is what it can do beside that.
	Also []csi.ControllerServiceCapability_RPC_Type
}

// ControllerGetCapabilities tells it.
func (o Offers) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range append([]csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	}, o.Also...) {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return out, nil
}

// described is the identity service of the controller's process.
type described struct {
	csi.UnimplementedIdentityServer
	client csi.IdentityClient
}

// GetPluginInfo asks the node's.
func (d *described) GetPluginInfo(ctx context.Context, req *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return d.client.GetPluginInfo(ctx, req)
}

// GetPluginCapabilities asks the node's.
func (d *described) GetPluginCapabilities(
	ctx context.Context, req *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return d.client.GetPluginCapabilities(ctx, req)
}

// Probe asks the node's.
func (d *described) Probe(ctx context.Context, req *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return d.client.Probe(ctx, req)
}

// Filesystem is the capability of a filesystem with an access mode and mount flags.
func Filesystem(mode csi.VolumeCapability_AccessMode_Mode, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: flags}},
	}
}

// Shared is Filesystem for many nodes that write.
func Shared(flags ...string) *csi.VolumeCapability {
	return Filesystem(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, flags...)
}

// MountedBelow are the mounts below a directory in the order of mounting; "(ro)" follows those that are read-only.
func MountedBelow(t *testing.T, dir string, table interface{ Points() ([]mount.Point, error) }) []string {
	t.Helper()
	points, err := table.Points()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range points {
		if rest, ok := strings.CutPrefix(p.Path, dir+"/"); ok {
			if p.ReadOnly {
				rest += " (ro)"
			}
			out = append(out, rest)
		}
	}
	return out
}
