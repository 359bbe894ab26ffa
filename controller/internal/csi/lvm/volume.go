package lvm

import (
	"context"
	"slices"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/pkg/volumeid"
)

// DeleteVolume removes a volume that nobody uses. One that is absent is gone already.
func (b *Backend) DeleteVolume(ctx context.Context, handle string) error {
	id, err := parse(handle)
	if err != nil {
		return err
	}
	return b.remove(ctx, id)
}

// remove removes a volume or snapshot. A group that should be there and is not may come back with the volume in it, and one that was imported on
// another node is looked into there. What was on a member that a person declared lost counts as deleted.
func (b *Backend) remove(ctx context.Context, id volumeid.ID) error {
	p, err := b.locate(ctx, id)
	if err != nil {
		return err
	}
	if !p.holds() {
		if moved, err := b.inherited(ctx, p); err != nil {
			return err
		} else if moved != nil {
			return b.removeFrom(ctx, p, *moved)
		}
	}
	if p.lost {
		return nil
	}
	if p, err = b.reach(ctx, id); err != nil {
		return err
	}
	if err := p.displaced(); err != nil {
		return err
	}
	if err := b.elsewhere(ctx, p); err != nil {
		return err
	}
	if err := b.removable(ctx, p); err != nil {
		return err
	}
	spec := p.spec()
	spec.Discard = p.discard
	err = b.Agents.DeleteVolume(ctx, id.Node, spec)
	if isFault(err, decide.FaultNotFound) {
		return b.absent(ctx, p)
	}
	return err
}

// Volume observes one volume. Of a volume on a node that does not answer, only its name and that fact are known.
func (b *Backend) Volume(ctx context.Context, handle string) (frame.Volume, error) {
	id, err := parse(handle)
	if err != nil {
		return frame.Volume{}, err
	}
	p, err := b.locate(ctx, id)
	switch {
	case err != nil:
		return frame.Volume{}, err
	case !p.node.Up() && slices.ContainsFunc(p.node.Groups, func(g decide.Group) bool {
		return g.Name == id.Group && slices.Contains(g.Volumes, id.Name)
	}):
		return item{id: id, condition: place.Away(p.node)}.volume(), nil
	}
	if p, err = b.reach(ctx, id); err != nil {
		return frame.Volume{}, err
	}
	v, err := b.look(ctx, p)
	return item{id: id, seen: v, condition: place.ConditionOf(p.node, v)}.volume(), err
}
