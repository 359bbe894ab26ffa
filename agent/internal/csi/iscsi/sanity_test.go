package iscsi_test

import (
	"context"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/sanitytest"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestSanity runs what the suite has on identity and node, over the model. Volumes are attached.
func TestSanity(t *testing.T) {
	r := newRig(t)
	controller := csitest.ServeController(t, r.Endpoint, r.IdentityClient, &controllerService{rig: r, t: t, Offers: csitest.Offers{
		Also: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME},
	}})
	sanitytest.Run(t, sanitytest.Config{
		Endpoint: r.Endpoint, ControllerEndpoint: controller, KubeletDir: r.Dir, VolumeBytes: 8 * mib, ExpandBytes: 16 * mib,
		Handle: func(name string) string { return r.handle(sharedlun.Name(name)) },
		Focus:  []string{"Identity Service", "Node Service"},
	})
}

// controllerService is as much of a controller service as tests of the node service need.
type controllerService struct {
	csitest.Offers
	*rig
	t *testing.T
}

// CreateVolume makes a volume.
func (c *controllerService) CreateVolume(_ context.Context, req *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	v := c.make(c.t, sharedlun.Name(req.GetName()), req.GetCapacityRange().GetRequiredBytes())
	return &csipb.CreateVolumeResponse{Volume: &csipb.Volume{VolumeId: c.handle(v.Name), CapacityBytes: v.SizeBytes}}, nil
}

// ControllerPublishVolume attaches a volume.
func (c *controllerService) ControllerPublishVolume(
	_ context.Context, req *csipb.ControllerPublishVolumeRequest,
) (*csipb.ControllerPublishVolumeResponse, error) {
	id, err := sharedlun.Parse(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	c.apply(c.t, sharedlun.Change{Hold: &sharedlun.Hold{Name: id.Name, Node: "n1"}})
	c.mapped(c.t, id.Name)
	if v := c.volume(id.Name); v.Content == "" && req.GetVolumeCapability().GetBlock() == nil {
		c.formatted(v, id.Name)
	}
	c.apply(c.t, sharedlun.Change{Used: &sharedlun.Hold{Name: id.Name, Node: "n1"}})
	return &csipb.ControllerPublishVolumeResponse{PublishContext: c.Attached[req.GetVolumeId()]}, nil
}

// ControllerUnpublishVolume detaches a volume.
func (c *controllerService) ControllerUnpublishVolume(
	ctx context.Context, req *csipb.ControllerUnpublishVolumeRequest,
) (*csipb.ControllerUnpublishVolumeResponse, error) {
	id, err := sharedlun.Parse(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	g := c.apply(c.t, sharedlun.Change{Leave: &sharedlun.Hold{Name: id.Name, Node: "n1"}})
	if v := g.Volume(id.Name); v != nil {
		if err := c.node.Unmap(ctx, c.ref, v.UUID, g.Sequence, false); err != nil {
			return nil, err
		}
		c.apply(c.t, sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: id.Name, Node: "n1"}}})
	}
	return &csipb.ControllerUnpublishVolumeResponse{}, nil
}

// DeleteVolume removes a volume.
func (c *controllerService) DeleteVolume(_ context.Context, req *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	id, err := sharedlun.Parse(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if v := c.lun.Group().Volume(id.Name); v != nil {
		c.apply(c.t, sharedlun.Change{Remove: &sharedlun.Remove{Name: v.Name, UUID: v.UUID}})
	}
	return &csipb.DeleteVolumeResponse{}, nil
}

// ControllerExpandVolume makes a volume larger, and has it mapped again.
func (c *controllerService) ControllerExpandVolume(
	_ context.Context, req *csipb.ControllerExpandVolumeRequest,
) (*csipb.ControllerExpandVolumeResponse, error) {
	id, err := sharedlun.Parse(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	size := req.GetCapacityRange().GetRequiredBytes()
	c.apply(c.t, sharedlun.Change{Grow: &sharedlun.Grow{Name: id.Name, SizeBytes: size}})
	g := c.apply(c.t, sharedlun.Change{Ready: &sharedlun.Ready{Name: id.Name, Bytes: size}})
	c.volume(id.Name).Size = size
	if g.Volume(id.Name).HeldBy != "" {
		c.mapped(c.t, id.Name)
	}
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: true}, nil
}
