package frame

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/controller/internal/decide/volume"
)

// wish reads a CreateVolumeRequest.
func (d *driver) wish(req *csi.CreateVolumeRequest) (w Wish, err error) {
	if err = checkName(req.GetName()); err != nil {
		return w, err
	}
	if w.Access, err = d.access(req.GetVolumeCapabilities()...); err != nil {
		return w, err
	}
	p, err := d.parameters(req.GetParameters())
	if err != nil {
		return w, err
	}
	if len(req.GetMutableParameters()) > 0 {
		return w, volume.Refuse(volume.Invalid, "volumes have no parameters that can be changed")
	}
	w.Name, w.Parameters, w.Claim = d.Volumes.Name(req.GetName()), p.Own, p.Claim
	w.Size = sizeRange(req.GetCapacityRange())
	w.Size.Filesystem = volume.Filesystem(capabilities(w.Access))
	if err = w.Size.Check(); err != nil {
		return w, err
	}
	if w.Topology, err = d.place(req.GetAccessibilityRequirements().GetRequisite(), req.GetAccessibilityRequirements().GetPreferred()); err != nil {
		return w, err
	}
	w.Source, err = d.source(req.GetVolumeContentSource())
	return w, err
}

// CreateVolume makes a volume, or returns it when it is there already.
func (d *controller) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	w, err := d.wish(req)
	if err != nil {
		return nil, err
	}
	unlock, err := d.locks.TryLock(w.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.backend.CreateVolume(ctx, w)
	if err != nil {
		return nil, err
	}
	made := d.message(v)
	made.ContentSource = req.GetVolumeContentSource()
	return &csi.CreateVolumeResponse{Volume: made}, nil
}
