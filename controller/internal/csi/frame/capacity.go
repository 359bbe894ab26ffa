package frame

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"quarry.storage/quarry/controller/internal/decide/volume"
)

// GetCapacity returns the room for volumes of a class, on one node or on all.
func (d *controller) GetCapacity(ctx context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if d.measurer == nil {
		return nil, unimplemented("the capacity")
	}
	p, err := d.parameters(req.GetParameters())
	if err != nil {
		return nil, err
	}
	node := ""
	if t := req.GetAccessibleTopology(); t != nil && d.Topology != "" {
		where, err := d.place([]*csi.Topology{t}, nil)
		var refused *volume.Refusal
		if errors.As(err, &refused) && refused.Kind == volume.Exhausted {
			// No volume can be used there.
			return &csi.GetCapacityResponse{}, nil
		}
		if err != nil {
			return nil, err
		}
		node = where.Requisite[0]
	}
	if caps := req.GetVolumeCapabilities(); len(caps) > 0 {
		if _, err := d.access(caps...); err != nil {
			// There is no room for volumes that cannot be.
			return &csi.GetCapacityResponse{}, nil
		}
	}
	room, err := d.measurer.Capacity(ctx, p.Own, node)
	if err != nil {
		return nil, err
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: room.Available, MaximumVolumeSize: wrapperspb.Int64(room.Largest), MinimumVolumeSize: wrapperspb.Int64(room.Smallest),
	}, nil
}
