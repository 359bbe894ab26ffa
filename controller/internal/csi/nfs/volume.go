package nfs

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func bytesOf(v *corev1.PersistentVolume) int64 { return v.Spec.Capacity.Storage().Value() }

// ExpandVolume returns the new number: NFS enforces no size.
func (b *Backend) ExpandVolume(ctx context.Context, handle string, size volume.Range) (int64, error) {
	v, err := b.Volume(ctx, handle)
	if err != nil {
		return 0, err
	}
	want, err := size.Size(1)
	return max(v.Bytes, want), err
}

// Volume returns a volume: from its PersistentVolume, else from its record on the share, which knows the size that it was made with.
func (b *Backend) Volume(ctx context.Context, handle string) (frame.Volume, error) {
	id, err := parse(handle)
	if err != nil {
		return frame.Volume{}, err
	}
	k, err := b.find(ctx, id)
	if err != nil {
		return frame.Volume{}, err
	}
	if len(k.volumes) > 0 {
		return ofPersistent(k.volumes[0], k.owner), nil
	}
	share, err := k.share()
	if err != nil {
		return frame.Volume{}, err
	}
	d, err := b.record(ctx, share, k.hint(), id.Name)
	if err == nil && d == nil {
		err = volume.Refuse(volume.NotFound, "volume %s does not exist", id)
	}
	if err != nil {
		return frame.Volume{}, err
	}
	return ofRecord(*d, k.owner), nil
}

func ofPersistent(v *corev1.PersistentVolume, owner *v1alpha1.Nfs) frame.Volume {
	return frame.Volume{
		Handle: v.Spec.CSI.VolumeHandle, Bytes: bytesOf(v), Context: v.Spec.CSI.VolumeAttributes, Condition: nfs.Condition(owner),
	}
}

func ofRecord(d sharedvolume.Directory, owner *v1alpha1.Nfs) frame.Volume {
	v := frame.Volume{Handle: d.ID.String(), Bytes: d.Bytes, Condition: nfs.Condition(owner)}
	switch d.State {
	case sharedvolume.Making:
		v.Condition = volume.Abnormal("its directory is being made")
	case sharedvolume.Removing:
		v.Condition = volume.Abnormal("its directory is being removed")
	}
	return v
}

// Volumes yields the volumes of all owners, ordered by handle: those with a PersistentVolume, and those of which only the share knows.
func (b *Backend) Volumes(ctx context.Context, from string) iter.Seq2[frame.Volume, error] {
	return func(yield func(frame.Volume, error) bool) {
		owners, err := b.owners(ctx)
		var found map[string]map[string]frame.Volume
		if err == nil {
			found, err = b.persistentByOwner(ctx, owners)
		}
		if err != nil {
			yield(frame.Volume{}, err)
			return
		}
		for _, uid := range slices.Sorted(maps.Keys(found)) {
			for _, v := range b.ofOwner(ctx, uid, owners[uid], found[uid], from) {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

// persistentByOwner returns the volumes with a PersistentVolume, by UID of the owner and by name. Every Nfs has an entry.
func (b *Backend) persistentByOwner(ctx context.Context, owners map[string]*v1alpha1.Nfs) (map[string]map[string]frame.Volume, error) {
	all, err := b.persistent.All(ctx)
	out := map[string]map[string]frame.Volume{}
	for uid := range owners {
		out[uid] = map[string]frame.Volume{}
	}
	for _, v := range all {
		id, err := parse(v.Spec.CSI.VolumeHandle)
		if err != nil {
			continue
		}
		if out[id.Owner] == nil {
			out[id.Owner] = map[string]frame.Volume{}
		}
		out[id.Owner][id.Name] = ofPersistent(v, owners[id.Owner])
	}
	return out, err
}

// ofOwner adds the volumes of which only the share knows, and returns those from a handle on in order. A share that nobody reaches
// hides no PersistentVolume.
func (b *Backend) ofOwner(ctx context.Context, uid string, owner *v1alpha1.Nfs, found map[string]frame.Volume, from string) []frame.Volume {
	// Every handle of the owner is below this text: '0' follows the slash.
	if owner != nil && uid+"0" > from {
		for d, err := range b.records(ctx, nfs.ShareOf(owner), owner.Status.CheckedFrom) {
			if err != nil {
				b.Log.Info("Listing only the PersistentVolumes of a share", "nfs", owner.Name, "problem", err.Error())
				break
			}
			if _, known := found[d.Name]; !known {
				found[d.Name] = ofRecord(d, owner)
			}
		}
	}
	out := slices.SortedFunc(maps.Values(found), func(a, b frame.Volume) int { return cmp.Compare(a.Handle, b.Handle) })
	return slices.DeleteFunc(out, func(v frame.Volume) bool { return v.Handle < from })
}
