package frame

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/controller/internal/decide/volume"
)

// noAttaching says what a driver without an Attacher does not offer.
const noAttaching = "attaching"

// ControllerPublishVolume makes a volume reachable from a node.
func (d *controller) ControllerPublishVolume(
	ctx context.Context, req *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	if d.attacher == nil {
		return nil, unimplemented(noAttaching)
	}
	name, err := d.volumeName(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if req.GetNodeId() == "" {
		return nil, volume.Refuse(volume.Invalid, "no node id is given")
	}
	access, err := d.access(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if req.GetReadonly() && !d.AttachReadOnly {
		return nil, volume.Refuse(volume.Invalid, "the driver does not offer attachments that are read-only")
	}
	resp := &csi.ControllerPublishVolumeResponse{}
	err = d.locked(name, func() (err error) {
		resp.PublishContext, err = d.attacher.Attach(ctx, Attachment{
			Handle: req.GetVolumeId(), Node: req.GetNodeId(), Access: access[0],
			ReadOnly: req.GetReadonly(), Context: req.GetVolumeContext(),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// ControllerUnpublishVolume makes a volume unreachable from a node, or from all.
func (d *controller) ControllerUnpublishVolume(
	ctx context.Context, req *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if d.attacher == nil {
		return nil, unimplemented(noAttaching)
	}
	name, err := d.volumeName(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := d.locked(name, func() error { return d.attacher.Detach(ctx, req.GetVolumeId(), req.GetNodeId()) }); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
