package nfs

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// owners returns all Nfs objects by UID. They must not be changed.
func (b *Backend) owners(ctx context.Context) (map[string]*v1alpha1.Nfs, error) {
	var list v1alpha1.NfsList
	if err := b.Reader.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("list nfs: %w", err)
	}
	out := map[string]*v1alpha1.Nfs{}
	for i := range list.Items {
		out[string(list.Items[i].UID)] = &list.Items[i]
	}
	return out, nil
}

// owner returns the Nfs of a UID; nil when there is none.
func (b *Backend) owner(ctx context.Context, uid string) (*v1alpha1.Nfs, error) {
	all, err := b.owners(ctx)
	return all[uid], err
}

// known is a volume as far as the cache knows it.
type known struct {
	id sharedvolume.ID
	// owner is nil when the Nfs does not exist any more.
	owner *v1alpha1.Nfs
	// volumes are the PersistentVolumes of the handle, and recorded what is recorded in the first one; nil when there is none.
	volumes  []*corev1.PersistentVolume
	recorded *sharedvolume.Attributes
}

// find looks a volume up in the cache. A PersistentVolume whose attributes cannot be read is an error: where the volume is, is unknown.
func (b *Backend) find(ctx context.Context, id sharedvolume.ID) (known, error) {
	k := known{id: id}
	var err error
	if k.owner, err = b.owner(ctx, id.Owner); err != nil {
		return k, err
	}
	if k.volumes, err = b.persistent.With(ctx, id.String()); err != nil || len(k.volumes) == 0 {
		return k, err
	}
	a, err := sharedvolume.ParseAttributes(k.volumes[0].Spec.CSI.VolumeAttributes)
	if err != nil {
		return k, volume.Refuse(volume.Precondition, "PersistentVolume %s does not say where volume %s is: %v", k.volumes[0].Name, id, err)
	}
	k.recorded = &a
	return k, nil
}

// share returns the share that a volume is on: as it was recorded when the volume was made, else the one of its Nfs. Without either it
// is not known where the volume is, and so not whether it exists.
func (k known) share() (sharedvolume.Share, error) {
	switch {
	case k.recorded != nil && k.owner != nil:
		// The Nfs may have learned since with which options its server can be reached.
		s := nfs.Recorded(k.id.Owner, *k.recorded)
		s.MountOptions, s.HasVolumes = nfs.ShareOf(k.owner).MountOptions, true
		return s, nil
	case k.recorded != nil:
		s := nfs.Recorded(k.id.Owner, *k.recorded)
		s.HasVolumes = true
		return s, nil
	case k.owner != nil:
		return nfs.ShareOf(k.owner), nil
	}
	return sharedvolume.Share{}, volume.Refuse(volume.Precondition,
		"neither a PersistentVolume of volume %s nor an Nfs with its UID exists: it is not known which share the volume is on", k.id)
}

// hint is the node that the Nfs was checked from last.
func (k known) hint() string {
	if k.owner == nil {
		return ""
	}
	return k.owner.Status.CheckedFrom
}

// records yields the records of an owner's volumes on its share.
func (b *Backend) records(ctx context.Context, s sharedvolume.Share, hint string) iter.Seq2[sharedvolume.Directory, error] {
	return func(yield func(sharedvolume.Directory, error) bool) {
		for token, first := "", true; first || token != ""; first = false {
			var page []sharedvolume.Directory
			var next string
			err := b.through(ctx, s, hint, func(ctx context.Context, node string) (err error) {
				page, next, err = b.Agents.ListDirectories(ctx, node, s, token, false)
				return err
			})
			if err != nil {
				yield(sharedvolume.Directory{}, err)
				return
			}
			for _, d := range page {
				if d.Owner == s.Owner && !yield(d, nil) {
					return
				}
			}
			token = next
		}
	}
}

// record returns the record of one volume; nil when the share has none.
func (b *Backend) record(ctx context.Context, s sharedvolume.Share, hint, name string) (*sharedvolume.Directory, error) {
	for d, err := range b.records(ctx, s, hint) {
		if err != nil {
			return nil, err
		}
		if d.Name == name {
			return &d, nil
		}
	}
	return nil, nil
}
