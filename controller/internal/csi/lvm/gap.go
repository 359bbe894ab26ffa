package lvm

import (
	"cmp"
	"context"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

func (b *Backend) persistent() frame.PersistentVolumes {
	return frame.PersistentVolumes{Reader: b.Reader, Driver: v1alpha1.DriverLVM}
}

// volumes returns the volumes of a node that the API server has.
func (b *Backend) volumes(ctx context.Context, node string) ([]backend.Volume, error) {
	found, err := b.persistent().Below(ctx, node)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out := make([]backend.Volume, 0, len(found))
	for _, v := range found {
		out = append(out, backend.VolumeOf(v, now))
	}
	return out, nil
}

// gap says which volumes the group of a spot lacks; empty when it lacks none. The reports of agents and the PersistentVolumes tell it at
// once; the condition of the Member tells it later.
func (b *Backend) gap(ctx context.Context, p spot) (string, error) {
	g, seen := p.group()
	if !seen {
		return "", nil
	}
	volumes, err := b.volumes(ctx, p.id.Node)
	if err != nil {
		return "", err
	}
	return lvm.Gap(p.id.Node, g, volumes), nil
}

// group returns the group of a spot as its node reports it.
func (p spot) group() (decide.Group, bool) {
	i := slices.IndexFunc(p.node.Groups, func(g decide.Group) bool { return g.Name == p.id.Group && g.OwnerUID == p.owner })
	if i < 0 {
		return decide.Group{}, false
	}
	return p.node.Groups[i], true
}

// faded says why a volume that a group does not show may be in it all the same; nil when it cannot. Each disk of a group says what the group has, and
// one that was away meanwhile says what the group had: while another disk is missing, the ones that are there may all be of before. Of several groups of
// the name each may have it.
func (p spot) faded() error {
	if !slices.ContainsFunc(p.node.Groups, func(g decide.Group) bool { return g.Name == p.id.Group && g.OwnerUID == p.owner && g.Partial }) {
		return nil
	}
	return volume.Refuse(volume.Unavailable, "volume group %s on node %s does not show %s, and a disk of it is missing: what the other disks say may be of "+
		"before. It is asked again until the disk is back or the group has forgotten it", p.id.Group, p.id.Node, p.id.Name)
}

// displaced says why nothing is absent for sure on a node that shows another group than the Member records, or that cannot report its groups; nil if
// it shows the recorded one.
func (p spot) displaced() error {
	if !p.other {
		return nil
	}
	if unknown := decide.Unreported(p.node.UnknownOf(p.owner)); unknown != "" {
		return volume.Refuse(volume.Unavailable, "node %s: %s: %s may be in there", p.id.Node, unknown, p.id.Name)
	}
	return volume.Refuse(volume.Unavailable, "volume group %s on node %s is not the one that the Member records: %s may be in that one",
		p.id.Group, p.id.Node, p.id.Name)
}

// missed says why a volume or snapshot may exist even if the group of a spot does not show it; nil when it does not exist.
func (b *Backend) missed(ctx context.Context, p spot) error {
	return cmp.Or(p.displaced(), p.faded(), b.elsewhere(ctx, p))
}

// unless returns the error of a call that did not find a volume, or why nobody knows that it does not exist.
func (b *Backend) unless(ctx context.Context, id volumeid.ID, err error) error {
	if !isFault(err, decide.FaultNotFound) {
		return err
	}
	p, unsure := b.reach(ctx, id)
	if unsure == nil {
		unsure = b.missed(ctx, p)
	}
	return cmp.Or(unsure, err)
}

// takesSpace refuses what takes space in a group that lacks a volume or a disk.
func (b *Backend) takesSpace(ctx context.Context, p spot) error {
	if g, seen := p.group(); seen && g.Partial {
		return volume.Refuse(volume.Unavailable, "a disk of volume group %s on node %s is missing: LVM makes nothing there, and nothing larger, "+
			"until it is back or the group has forgotten it", p.id.Group, p.id.Node)
	}
	gap, err := b.gap(ctx, p)
	if err != nil || gap == "" {
		return err
	}
	return volume.Refuse(volume.Unavailable, "nothing is made or made larger in volume group %s on node %s: %s", p.id.Group, p.id.Node, gap)
}

// removable refuses the removal of a snapshot from a group that lacks a volume: it may be the last copy of what was in that, and tools
// that rotate snapshots ask nobody. A volume goes when a person deletes its claim, and its removal gives no space to anybody.
func (b *Backend) removable(ctx context.Context, p spot) error {
	g, _ := p.group()
	if !p.id.IsSnapshot() || !slices.Contains(g.Volumes, p.id.Name) {
		return nil
	}
	gap, err := b.gap(ctx, p)
	if err != nil || gap == "" {
		return err
	}
	return volume.Refuse(volume.Unavailable, "snapshot %s stays, for it may be the last copy of what is lost: on node %s %s", p.id.Name, p.id.Node, gap)
}
