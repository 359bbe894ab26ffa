package csi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// wish is a CreateVolumeRequest that makes sense.
type wish struct {
	name       string
	parameters volume.Parameters
	size       volume.Range
	topology   volume.Topology
	source     *volumeid.ID
}

func readCreate(req *csi.CreateVolumeRequest) (w wish, err error) {
	if err = checkName(req.GetName()); err != nil {
		return w, err
	}
	caps := capabilities(req.GetVolumeCapabilities())
	if err = volume.CheckCapabilities(caps); err != nil {
		return w, err
	}
	if w.parameters, err = volume.Parse(req.GetParameters()); err != nil {
		return w, err
	}
	if len(req.GetMutableParameters()) > 0 {
		return w, refuse(volume.Invalid, "volumes have no parameters that can be changed")
	}
	w.name, w.size = volumeid.Name(req.GetName()), sizeRange(req.GetCapacityRange())
	w.size.Filesystem = volume.Filesystem(caps)
	if err = w.size.Check(); err != nil {
		return w, err
	}
	if w.topology, err = topology(req.GetAccessibilityRequirements()); err != nil {
		return w, err
	}
	w.source, err = source(req.GetVolumeContentSource())
	return w, err
}

// CreateVolume makes a volume on the first allowed host that has room. It asks an agent once, for a repeated request too.
func (d *controller) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	w, err := readCreate(req)
	if err != nil {
		return nil, err
	}
	unlock, err := d.locks.tryLock(w.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	choices, class, err := d.place(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := d.fits(ctx, w); err != nil {
		return nil, err
	}
	v, id, err := d.createOn(ctx, w, class, choices)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: id.String(), CapacityBytes: v.SizeBytes, AccessibleTopology: onNode(id.Node),
		VolumeContext: map[string]string{v1alpha1.ParameterCluster: class.Owner}, ContentSource: req.GetVolumeContentSource(),
	}}, nil
}

// place returns where the volume may be made.
func (d *Driver) place(ctx context.Context, w wish) ([]volume.Choice, volume.Class, error) {
	c, err := d.cluster(ctx, w.parameters.Cluster)
	if err != nil {
		return nil, volume.Class{}, err
	}
	hosts, err := d.hosts(ctx, c)
	if err != nil {
		return nil, volume.Class{}, err
	}
	class := volume.ClassOf(c)
	class.Thin = w.parameters.Thin
	choices, err := volume.Place(volume.Request{
		Class: class, Name: w.name, Range: w.size, Topology: w.topology, Source: w.source,
	}, hosts)
	return choices, class, err
}

// fits refuses a limit that is below the size of the source: a copy is not made smaller. Only then the source is looked at first.
func (d *Driver) fits(ctx context.Context, w wish) error {
	if w.source == nil || w.size.Limit == 0 {
		return nil
	}
	p, err := d.reach(ctx, *w.source)
	if err != nil {
		return err
	}
	v, err := d.look(ctx, p)
	if err != nil {
		return err
	}
	return w.size.Holds(v.SizeBytes)
}

// createOn asks one agent after the other as long as they have no room.
func (d *Driver) createOn(ctx context.Context, w wish, class volume.Class, choices []volume.Choice) (decide.Volume, volumeid.ID, error) {
	var full error
	for _, c := range choices {
		id, err := volumeid.New(c.Host.Node.Name, class.Group, w.name)
		if err != nil {
			return decide.Volume{}, id, err
		}
		spec := decide.VolumeSpec{
			Group: class.Group, Owner: class.Owner, Name: w.name, ID: id.String(), SizeBytes: c.Size,
			ThinPool: class.Thin.Pool, OverprovisionPercent: class.Thin.Percent,
		}
		if w.source != nil {
			spec.Source = w.source.Name
		}
		v, err := d.cfg.Agents.CreateVolume(ctx, id.Node, spec)
		if !isFault(err, decide.FaultNoRoom) {
			return v, id, err
		}
		full = err
	}
	return decide.Volume{}, volumeid.ID{}, full
}
