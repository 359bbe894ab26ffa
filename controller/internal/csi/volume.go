package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// DeleteVolume removes a volume that nobody uses. One that is absent is gone already.
func (d *controller) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id, err := volumeID(req.GetVolumeId())
	if err == nil {
		err = d.remove(ctx, id)
	}
	if err != nil && !errors.Is(err, volumeid.ErrNotOurs) {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// remove removes a volume or snapshot. A group that should be there and is not may come back with the volume in it.
func (d *Driver) remove(ctx context.Context, id volumeid.ID) error {
	unlock, err := d.locks.tryLock(id.Name)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := d.reach(ctx, id)
	if err != nil {
		return err
	}
	err = d.cfg.Agents.DeleteVolume(ctx, id.Node, p.spec())
	if isFault(err, decide.FaultNotFound) {
		return refuse(volume.Unavailable, fmt.Sprintf(
			"volume group %s is not seen on node %s: its disks may be away, and %s with them", id.Group, id.Node, id.Name))
	}
	return err
}

// ControllerExpandVolume makes a volume larger, also while it is used.
func (d *controller) ControllerExpandVolume(
	ctx context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	id, err := volumeID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	want := sizeRange(req.GetCapacityRange())
	switch c := req.GetVolumeCapability(); {
	case !want.Given:
		return nil, refuse(volume.Invalid, "no capacity range is given")
	case c != nil:
		if err := volume.CheckCapabilities(capabilities([]*csi.VolumeCapability{c})); err != nil {
			return nil, err
		}
	}
	v, err := d.expand(ctx, id, want)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: v.SizeBytes, NodeExpansionRequired: req.GetVolumeCapability().GetBlock() == nil,
	}, nil
}

func (d *Driver) expand(ctx context.Context, id volumeid.ID, want volume.Range) (decide.Volume, error) {
	if err := want.Check(); err != nil {
		return decide.Volume{}, err
	}
	unlock, err := d.locks.tryLock(id.Name)
	if err != nil {
		return decide.Volume{}, err
	}
	defer unlock()
	p, err := d.reach(ctx, id)
	if err != nil {
		return decide.Volume{}, err
	}
	spec := p.spec()
	if spec.SizeBytes, err = want.Size(p.extent()); err != nil {
		return decide.Volume{}, err
	}
	v, err := d.cfg.Agents.ResizeVolume(ctx, id.Node, spec)
	if err != nil {
		return decide.Volume{}, err
	}
	return v, want.Holds(v.SizeBytes)
}

func (p place) extent() int64 {
	for _, g := range p.node.Groups {
		if g.Name == p.id.Group {
			return g.ExtentBytes
		}
	}
	return 0
}

// ControllerGetVolume tells what a volume is like, and what is wrong with it. Of one on a node that does not answer only that is
// known.
func (d *controller) ControllerGetVolume(
	ctx context.Context, req *csi.ControllerGetVolumeRequest,
) (*csi.ControllerGetVolumeResponse, error) {
	id, err := volumeID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	i, err := d.observe(ctx, id)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: i.volume(), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{VolumeCondition: condition(i.condition)},
	}, nil
}

// observe sees one volume, or remembers that it was seen.
func (d *Driver) observe(ctx context.Context, id volumeid.ID) (item, error) {
	p, err := d.locate(ctx, id)
	switch {
	case err != nil:
		return item{}, err
	case !p.node.Up() && slices.ContainsFunc(p.node.Groups, func(g decide.Group) bool {
		return g.Name == id.Group && slices.Contains(g.Volumes, id.Name)
	}):
		return item{id: id, condition: volume.Away(p.node)}, nil
	}
	if p, err = d.reach(ctx, id); err != nil {
		return item{}, err
	}
	v, err := d.look(ctx, p)
	return item{id: id, seen: v, condition: volume.ConditionOf(p.node, v)}, err
}

// ValidateVolumeCapabilities confirms what a volume can be used for.
func (d *controller) ValidateVolumeCapabilities(
	ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() != "" && len(req.GetVolumeCapabilities()) == 0 {
		return nil, refuse(volume.Invalid, "no volume capability is given")
	}
	id, err := volumeID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if _, err := d.observe(ctx, id); err != nil {
		return nil, err
	}
	if err := volume.CheckCapabilities(capabilities(req.GetVolumeCapabilities())); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	if _, err := volume.Parse(req.GetParameters()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}
