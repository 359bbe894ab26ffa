package lvm

import (
	"context"

	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// ExpandVolume makes a volume larger, also while it is used.
func (b *Backend) ExpandVolume(ctx context.Context, handle string, size volume.Range) (int64, error) {
	id, err := parse(handle)
	if err != nil {
		return 0, err
	}
	p, err := b.reach(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := b.takesSpace(ctx, p); err != nil {
		return 0, err
	}
	if err := b.asLargeAsRecorded(ctx, id); err != nil {
		return 0, err
	}
	spec := p.spec()
	if spec.SizeBytes, err = size.Size(p.extent()); err != nil {
		return 0, err
	}
	// The volume itself says whether it may be shown raw; a caller need not, and csi-sanity does not.
	spec.Zero = place.Zero(p.zero, false)
	v, err := b.Agents.ResizeVolume(ctx, id.Node, spec)
	return v.SizeBytes, b.unless(ctx, id, err)
}

// asLargeAsRecorded refuses to grow a volume that is smaller than its PersistentVolume says. Older metadata of LVM came back, or somebody reduced the
// volume: what it would grow over is zeroed before, and may be its own data. What is recorded outranks what is seen.
func (b *Backend) asLargeAsRecorded(ctx context.Context, id volumeid.ID) error {
	named, err := b.persistent().With(ctx, id.String())
	if err != nil {
		return err
	}
	var recorded int64
	for _, pv := range named {
		recorded = max(recorded, pv.Spec.Capacity.Storage().Value())
	}
	if recorded == 0 {
		return nil
	}
	v, err := b.listed(ctx, id)
	// The agent says what it means that it does not have the volume.
	if err != nil || v == nil || v.SizeBytes >= recorded {
		return err
	}
	return volume.Refuse(volume.Precondition, "volume %s has %d bytes, and its PersistentVolume has %d on record: older metadata of LVM came back, or somebody reduced the volume. "+
		"It does not grow, for what it grew over would be zeroed, and may be its own data. docs/troubleshooting.md says what to do", id, v.SizeBytes, recorded)
}

func (p spot) extent() int64 {
	for _, g := range p.node.Groups {
		if g.Name == p.id.Group {
			return g.ExtentBytes
		}
	}
	return 0
}
