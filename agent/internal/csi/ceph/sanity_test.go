package ceph_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/sanitytest"
	"quarry.storage/quarry/pkg/cephvolume"
)

// TestSanity runs what the suite has on identity and node, over the model.
func TestSanity(t *testing.T) {
	r := newRig(t)
	controller := filepath.Join(filepath.Dir(r.Endpoint), "controller.sock")
	listener, err := net.Listen("unix", controller)
	must(t, err)
	g := grpc.NewServer()
	csipb.RegisterIdentityServer(g, &csitest.Identity{Client: r.IdentityClient})
	csipb.RegisterControllerServer(g, &controllerService{rig: r})
	go func() {
		if err := g.Serve(listener); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(g.Stop)
	sanitytest.Run(t, sanitytest.Config{
		Endpoint: r.Endpoint, ControllerEndpoint: controller, KubeletDir: r.Dir, VolumeBytes: 1 << 30, ExpandBytes: 2 << 30, Secrets: r.Secrets,
		Handle: func(name string) string { return cephvolume.ID{FSID: fsid, Name: cephvolume.Name(name)}.String() },
		Focus:  []string{"Identity Service", "Node Service"},
	})
}

// controllerService is as much of a controller service as tests of the node service need.
type controllerService struct {
	csipb.UnimplementedControllerServer
	*rig
}

// ControllerGetCapabilities offers making and expanding.
func (c *controllerService) ControllerGetCapabilities(
	context.Context, *csipb.ControllerGetCapabilitiesRequest,
) (*csipb.ControllerGetCapabilitiesResponse, error) {
	resp := &csipb.ControllerGetCapabilitiesResponse{}
	for _, t := range []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		resp.Capabilities = append(resp.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// CreateVolume makes a volume.
func (c *controllerService) CreateVolume(_ context.Context, req *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	handle := c.add(cephvolume.Name(req.GetName()))
	return &csipb.CreateVolumeResponse{Volume: &csipb.Volume{
		VolumeId: handle, CapacityBytes: req.GetCapacityRange().GetRequiredBytes(), VolumeContext: c.Context[handle],
	}}, nil
}

// DeleteVolume removes one.
func (c *controllerService) DeleteVolume(_ context.Context, req *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	if _, err := cephvolume.Parse(req.GetVolumeId()); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	c.set(func() { delete(c.paths, req.GetVolumeId()) })
	return &csipb.DeleteVolumeResponse{}, nil
}

// ControllerExpandVolume changes the number only.
func (c *controllerService) ControllerExpandVolume(
	_ context.Context, req *csipb.ControllerExpandVolumeRequest,
) (*csipb.ControllerExpandVolumeResponse, error) {
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: req.GetCapacityRange().GetRequiredBytes()}, nil
}
