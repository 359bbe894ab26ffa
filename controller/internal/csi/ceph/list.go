package ceph

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
)

// Volumes yields the volumes of all Clusters, ordered by handle: those with a PersistentVolume, which say what they are, and those of which only Ceph knows. A
// Ceph cluster that cannot be asked hides no PersistentVolume.
func (b *Backend) Volumes(ctx context.Context, from string) iter.Seq2[frame.Volume, error] {
	return func(yield func(frame.Volume, error) bool) {
		owners, err := b.clusters(ctx)
		var found map[string]map[string]frame.Volume
		if err == nil {
			found, err = b.withPersistent(ctx, owners)
		}
		if err != nil {
			yield(frame.Volume{}, err)
			return
		}
		for _, fsid := range slices.Sorted(maps.Keys(found)) {
			for _, v := range b.ofCluster(ctx, fsid, owners[fsid], found[fsid], from) {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

// withPersistent returns the volumes with a PersistentVolume, by FSID and by name. Every Cluster has an entry.
func (b *Backend) withPersistent(ctx context.Context, owners map[string]*v1alpha1.Cluster) (map[string]map[string]frame.Volume, error) {
	all, err := b.persistent.All(ctx)
	out := map[string]map[string]frame.Volume{}
	for fsid := range owners {
		out[fsid] = map[string]frame.Volume{}
	}
	for _, v := range all {
		id, err := parse(v.Spec.CSI.VolumeHandle)
		if err != nil {
			continue
		}
		if out[id.FSID] == nil {
			out[id.FSID] = map[string]frame.Volume{}
		}
		out[id.FSID][id.Name] = frame.Volume{
			Handle: id.String(), Bytes: v.Spec.Capacity.Storage().Value(), Context: v.Spec.CSI.VolumeAttributes, Condition: condition(owners[id.FSID]),
		}
	}
	return out, err
}

// ofCluster adds the volumes of which only Ceph knows, and returns those from a handle on in order.
func (b *Backend) ofCluster(
	ctx context.Context, fsid string, owner *v1alpha1.Cluster, found map[string]frame.Volume, from string,
) []frame.Volume {
	// Every handle of the Ceph cluster is below this text: '0' follows the slash.
	if owner != nil && fsid+"0" > from {
		if err := b.addUnknown(ctx, owner, found); err != nil {
			b.Log.Info("Listing only the PersistentVolumes of a Ceph cluster", "cluster", owner.Name, "problem", err.Error())
		}
	}
	out := slices.SortedFunc(maps.Values(found), func(a, b frame.Volume) int { return cmp.Compare(a.Handle, b.Handle) })
	return slices.DeleteFunc(out, func(v frame.Volume) bool { return v.Handle < from })
}

func (b *Backend) addUnknown(ctx context.Context, owner *v1alpha1.Cluster, found map[string]frame.Volume) error {
	s, err := b.open(ctx, owner)
	if err != nil {
		return err
	}
	names, err := s.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, known := found[name]; known || !cephvolume.ValidName(name) {
			continue
		}
		v, err := s.Volume(ctx, name)
		if err != nil && !errors.Is(err, subvolume.ErrAbsent) {
			return err
		}
		if err == nil && v.State != subvolume.Retained {
			found[name] = s.volume(v)
		}
	}
	return nil
}

// absent says that a snapshot does not exist.
func absent(handle string) error {
	return volume.Refuse(volume.NotFound, "snapshot %s does not exist", handle)
}
