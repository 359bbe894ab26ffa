package lvm

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/volumeid"
)

// wish is a frame.Wish with what only local volumes have.
type wish struct {
	frame.Wish
	parameters place.Parameters
	source     *volumeid.ID
}

// read reads a wish.
func read(w frame.Wish) (wish, error) {
	out := wish{Wish: w}
	var err error
	if out.parameters, err = place.Parse(w.Parameters); err != nil {
		return out, err
	}
	for _, a := range w.Access {
		if a.Block {
			continue
		}
		if err := out.parameters.CheckMkfs(a.FSType); err != nil {
			return out, err
		}
	}
	if w.Source == nil {
		return out, nil
	}
	id, err := parse(w.Source.Handle)
	out.source = &id
	return out, err
}

// CreateVolume makes a volume on the first allowed host that has room. It asks an agent once, for a repeated request too.
func (b *Backend) CreateVolume(ctx context.Context, asked frame.Wish) (frame.Volume, error) {
	w, err := read(asked)
	if err != nil {
		return frame.Volume{}, err
	}
	choices, class, err := b.choose(ctx, w)
	if err != nil {
		return frame.Volume{}, err
	}
	if err := b.fits(ctx, w); err != nil {
		return frame.Volume{}, err
	}
	v, id, groupUUID, err := b.createOn(ctx, w, class, choices)
	if w.source != nil {
		err = b.unless(ctx, *w.source, err)
	}
	if err != nil {
		return frame.Volume{}, err
	}
	made := item{id: id, seen: v}.volume()
	// The group's UUID stays on the PersistentVolume: it says which group held the volume when no disk says it any more.
	made.Context = map[string]string{v1alpha1.ParameterCluster: class.Owner, v1alpha1.AttributeGroupUUID: groupUUID}
	if w.parameters.Mkfs != "" {
		made.Context[v1alpha1.ParameterMkfsOptions] = w.parameters.Mkfs
	}
	return made, nil
}

// choose returns where the volume may be made.
func (b *Backend) choose(ctx context.Context, w wish) ([]place.Choice, place.Class, error) {
	c, err := b.cluster(ctx, w.parameters.Cluster)
	if err != nil {
		return nil, place.Class{}, err
	}
	hosts, err := b.hosts(ctx, c, "")
	if err != nil {
		return nil, place.Class{}, err
	}
	class := place.ClassOf(c)
	class.Thin = w.parameters.Thin
	if err := b.overlook(ctx, w, class, hosts); err != nil {
		return nil, class, err
	}
	choices, err := place.Choose(place.Request{
		Class: class, Name: w.Name, Range: w.Size, Topology: w.Topology, Source: w.source,
	}, hosts)
	if err != nil {
		err = cmp.Or(b.absentSource(ctx, w), err)
	}
	return choices, class, err
}

// absentSource returns an error when the source of a volume that cannot be made is known not to exist: whoever names nothing at all is told
// that first. Where the volume can be made, the agent that makes it says so.
func (b *Backend) absentSource(ctx context.Context, w wish) error {
	if w.source == nil {
		return nil
	}
	p, err := b.reach(ctx, *w.source)
	if err == nil {
		_, err = b.look(ctx, p)
	}
	var refused *volume.Refusal
	if errors.Is(err, volume.ErrNotOurs) || errors.As(err, &refused) && refused.Kind == volume.NotFound {
		return err
	}
	return nil
}

// fits refuses a limit that is below the size of the source: a copy is not made smaller. It looks at the source only if there is a
// limit.
func (b *Backend) fits(ctx context.Context, w wish) error {
	if w.source == nil || w.Size.Limit == 0 {
		return nil
	}
	p, err := b.reach(ctx, *w.source)
	if err != nil {
		return err
	}
	v, err := b.look(ctx, p)
	if err != nil {
		return err
	}
	return w.Size.Holds(v.SizeBytes)
}

// createOn asks one agent after the other as long as they have no room. It returns the volume, its ID and the UUID of its group.
func (b *Backend) createOn(
	ctx context.Context, w wish, class place.Class, choices []place.Choice,
) (made decide.Volume, id volumeid.ID, groupUUID string, err error) {
	var full error
	for _, c := range choices {
		id, err := volumeid.New(c.Host.Node.Name, class.Group, w.Name)
		if err != nil {
			return decide.Volume{}, id, "", err
		}
		spec := decide.VolumeSpec{
			Group: class.Group, Owner: class.Owner, GroupUUID: c.Host.Group.UUID, Name: w.Name, ID: id.String(), SizeBytes: c.Size,
			ThinPool: class.Thin.Pool, OverprovisionPercent: class.Thin.Percent,
			Zero: place.Zero(class.Zero, slices.ContainsFunc(w.Access, func(a csirpc.Access) bool { return a.Block })),
		}
		if w.source != nil {
			spec.Source = w.source.Name
		}
		v, err := b.Agents.CreateVolume(ctx, id.Node, spec)
		if !isFault(err, decide.FaultNoRoom) {
			// An agent of before that field works on the group of that name, which is the reported one as far as anybody knows.
			return v, id, cmp.Or(v.GroupUUID, c.Host.Group.UUID), err
		}
		full = err
	}
	return decide.Volume{}, volumeid.ID{}, "", full
}
