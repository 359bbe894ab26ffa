package frame

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/controller/internal/decide/volume"
)

// DeleteVolume removes a volume. A handle that no volume of the driver ever had needs no work. One that several PersistentVolumes name is
// refused: which of them goes is not known here.
func (d *controller) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	name, err := d.volumeName(req.GetVolumeId())
	if err == nil {
		err = d.locked(name, func() error {
			if err := d.persistent.removable(ctx, req.GetVolumeId(), d.live); err != nil {
				return err
			}
			return d.backend.DeleteVolume(ctx, req.GetVolumeId())
		})
	}
	if err != nil && !isNotOurs(err) {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// locked does something while it holds the lock of a name.
func (d *driver) locked(name string, do func() error) error {
	unlock, err := d.locks.TryLock(name)
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}

// ControllerExpandVolume makes a volume larger, also while it is used.
func (d *controller) ControllerExpandVolume(
	ctx context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	name, err := d.volumeName(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	want := sizeRange(req.GetCapacityRange())
	if !want.Given {
		return nil, volume.Refuse(volume.Invalid, "no capacity range is given")
	}
	if c := req.GetVolumeCapability(); c != nil {
		asked, err := d.access(c)
		if err != nil {
			return nil, err
		}
		want.Filesystem = volume.Filesystem(capabilities(asked))
	}
	if err := want.Check(); err != nil {
		return nil, err
	}
	resp := &csi.ControllerExpandVolumeResponse{NodeExpansionRequired: d.NodeExpansion && req.GetVolumeCapability().GetBlock() == nil}
	err = d.locked(name, func() (err error) {
		resp.CapacityBytes, err = d.backend.ExpandVolume(ctx, req.GetVolumeId(), want)
		return err
	})
	if err == nil {
		err = want.Holds(resp.GetCapacityBytes())
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// ControllerGetVolume returns what a volume is like, and what is wrong with it.
func (d *controller) ControllerGetVolume(
	ctx context.Context, req *csi.ControllerGetVolumeRequest,
) (*csi.ControllerGetVolumeResponse, error) {
	if _, err := d.volumeName(req.GetVolumeId()); err != nil {
		return nil, err
	}
	v, err := d.backend.Volume(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: d.message(v),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{VolumeCondition: condition(v.Condition), PublishedNodeIds: v.Attached},
	}, nil
}

// ValidateVolumeCapabilities confirms what a volume can be used for.
func (d *controller) ValidateVolumeCapabilities(
	ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() != "" && len(req.GetVolumeCapabilities()) == 0 {
		return nil, volume.Refuse(volume.Invalid, "no volume capability is given")
	}
	if _, err := d.volumeName(req.GetVolumeId()); err != nil {
		return nil, err
	}
	if _, err := d.backend.Volume(ctx, req.GetVolumeId()); err != nil {
		return nil, err
	}
	if _, err := d.access(req.GetVolumeCapabilities()...); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	if _, err := d.parameters(req.GetParameters()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}
