package ceph_test

import (
	"context"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/sanitytest"
	"quarry.storage/quarry/pkg/cephvolume"
)

// TestSanity runs what the suite has on identity and node, over the model.
func TestSanity(t *testing.T) {
	r := newRig(t)
	controller := csitest.ServeController(t, r.Endpoint, r.IdentityClient, &controllerService{rig: r})
	sanitytest.Run(t, sanitytest.Config{
		Endpoint: r.Endpoint, ControllerEndpoint: controller, KubeletDir: r.Dir, VolumeBytes: 1 << 30, ExpandBytes: 2 << 30, Secrets: r.Secrets,
		Handle: func(name string) string { return cephvolume.ID{FSID: fsid, Name: cephvolume.Name(name)}.String() },
		Focus:  []string{"Identity Service", "Node Service"},
	})
}

// controllerService is as much of a controller service as tests of the node service need.
type controllerService struct {
	csitest.Offers
	*rig
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
