package ceph

import (
	"context"
	"maps"
	"slices"

	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
)

// found opens the Ceph cluster of a volume, and returns the volume if it exists for callers.
func (b *Backend) found(ctx context.Context, id cephvolume.ID) (site, subvolume.Volume, error) {
	s, err := b.site(ctx, id.FSID)
	if err != nil {
		return s, subvolume.Volume{}, err
	}
	v, err := s.Volume(ctx, id.Name)
	if err == nil && v.State == subvolume.Retained {
		err = volume.Refuse(volume.NotFound, "volume %s was deleted, and its snapshots are left", id)
	}
	return s, v, err
}

// ExpandVolume raises the quota of a volume. Mounts see that by themselves.
func (b *Backend) ExpandVolume(ctx context.Context, handle string, size volume.Range) (int64, error) {
	id, err := parse(handle)
	if err != nil {
		return 0, err
	}
	want, err := size.Size(1)
	if err != nil {
		return 0, err
	}
	s, v, err := b.found(ctx, id)
	switch {
	case err != nil:
	case v.State != subvolume.Whole:
		err = volume.Refuse(volume.Unfinished, "volume %s is %s: it grows once it is whole", id, v.State)
	case v.Bytes < want:
		err = s.Grow(ctx, v, want)
	}
	return max(v.Bytes, want), told(err)
}

// Volume returns a volume, as Ceph has it.
func (b *Backend) Volume(ctx context.Context, handle string) (frame.Volume, error) {
	id, err := parse(handle)
	if err != nil {
		return frame.Volume{}, err
	}
	s, v, err := b.found(ctx, id)
	if err != nil {
		return frame.Volume{}, told(err)
	}
	return s.volume(v), nil
}

// Capacity is what can be written yet: to one Cluster, or to all of them where the parameters name none. Ceph keeps no room for volumes: each may be as large as
// all of that.
func (b *Backend) Capacity(ctx context.Context, parameters map[string]string, _ string) (volume.Capacity, error) {
	owners, err := b.clusters(ctx)
	if parameters[v1alpha1.ParameterCluster] != "" {
		var owner *v1alpha1.Cluster
		owner, err = b.named(ctx, parameters)
		owners = map[string]*v1alpha1.Cluster{"": owner}
	}
	var all volume.Capacity
	for _, fsid := range slices.Sorted(maps.Keys(owners)) {
		if err != nil {
			break
		}
		var s site
		if s, err = b.open(ctx, owners[fsid]); err != nil {
			break
		}
		var room int64
		room, err = s.Room(ctx)
		all = all.Plus(volume.Capacity{Available: room, Largest: room, Smallest: 1})
	}
	if err != nil {
		return volume.Capacity{}, told(err)
	}
	return all, nil
}
