package csitest

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// Controller is as much of a controller service as tests of the node service need.
type Controller struct {
	*Host
	Offers
}

// CreateVolume makes a volume.
func (c *Controller) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	id := ID(req.GetName())
	v := c.Add(id, req.GetCapacityRange().GetRequiredBytes())
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id.String(), CapacityBytes: v.Size}}, nil
}

// DeleteVolume removes a volume.
func (c *Controller) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id, err := volumeid.Parse(req.GetVolumeId())
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	c.Remove(id)
	return &csi.DeleteVolumeResponse{}, nil
}

// ControllerExpandVolume makes a volume larger.
func (c *Controller) ControllerExpandVolume(
	_ context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	id, err := volumeid.Parse(req.GetVolumeId())
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	size := req.GetCapacityRange().GetRequiredBytes()
	_, err = c.change("expand", volume.Spec{Group: id.Group, Name: id.Name}, func(v *Volume) { v.Size = size })
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: true}, err
}
