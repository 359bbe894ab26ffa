package nfs

import (
	"context"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// CreateVolume makes the directory of a volume. A volume that exists keeps the directory and the policy that it was made with, whatever
// the Nfs says now.
func (b *Backend) CreateVolume(ctx context.Context, w frame.Wish) (frame.Volume, error) {
	if err := checkFlags(w); err != nil {
		return frame.Volume{}, err
	}
	k, err := b.wanted(ctx, w)
	if err != nil {
		return frame.Volume{}, err
	}
	size, err := k.agree(w.Size, k.bytes())
	if err != nil {
		return frame.Volume{}, err
	}
	a := k.recorded
	if a == nil {
		described, err := nfs.Describe(k.owner, w.Claim, w.Name)
		if err != nil {
			return frame.Volume{}, err
		}
		a = &described
		if err := b.alone(ctx, described); err != nil {
			return frame.Volume{}, err
		}
	}
	made, bytes, err := b.ensure(ctx, k, *a, size)
	if err == nil && len(k.volumes) == 0 {
		size, err = k.agree(w.Size, bytes)
	}
	if err != nil {
		return frame.Volume{}, err
	}
	return frame.Volume{Handle: k.id.String(), Bytes: size, Context: made.Map(), Condition: nfs.Condition(k.owner)}, nil
}

// alone refuses a directory that lies in or around that of a volume on another share of the same server. A PersistentVolume that does not
// say where it is was not made by this driver.
func (b *Backend) alone(ctx context.Context, a sharedvolume.Attributes) error {
	all, err := b.persistent.All(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		other, err := sharedvolume.ParseAttributes(v.Spec.CSI.VolumeAttributes)
		if err != nil {
			continue
		}
		if err := nfs.Overlap(a, v.Spec.CSI.VolumeHandle, other); err != nil {
			return err
		}
	}
	return nil
}

// checkFlags refuses mount options of the StorageClass that no mount may have.
func checkFlags(w frame.Wish) error {
	for _, a := range w.Access {
		if _, err := sharedvolume.ParseOptions(a.Flags); err != nil {
			return volume.Refuse(volume.Invalid, "%v", err)
		}
	}
	return nil
}

// wanted finds the Nfs that a StorageClass names, and what is known of the volume.
func (b *Backend) wanted(ctx context.Context, w frame.Wish) (known, error) {
	uid := w.Parameters[v1alpha1.ParameterNfs]
	if uid == "" {
		return known{}, volume.Refuse(volume.Invalid, "parameter %q is missing: it names the Nfs by its UID", v1alpha1.ParameterNfs)
	}
	id, err := sharedvolume.New(uid, w.Name)
	if err != nil {
		return known{}, volume.Refuse(volume.Invalid, "%v", err)
	}
	k, err := b.find(ctx, id)
	if err == nil && k.owner == nil {
		err = volume.Refuse(volume.Invalid, "parameter %q: no Nfs has the UID %s", v1alpha1.ParameterNfs, uid)
	}
	return k, err
}

// bytes is the size of the volume by its PersistentVolume, which alone knows of an expansion; 0 when there is none.
func (k known) bytes() int64 {
	if len(k.volumes) == 0 {
		return 0
	}
	return bytesOf(k.volumes[0])
}

// agree returns the size of a volume: the one that it has, which has to be one that is asked for, or else the one that is asked for. A volume has 0
// bytes when nothing says how many.
func (k known) agree(asked volume.Range, have int64) (int64, error) {
	size, err := asked.Size(1)
	if err != nil || have == 0 {
		return size, err
	}
	if have < asked.Required || asked.Holds(have) != nil {
		return 0, volume.Refuse(volume.Conflict, "volume %s exists with %d bytes", k.id, have)
	}
	return have, nil
}

// ensure makes the directory, and returns what is recorded of it: where it is, and with how many bytes it was made. The record of an earlier call
// wins where it says something else.
func (b *Backend) ensure(ctx context.Context, k known, a sharedvolume.Attributes, bytes int64) (sharedvolume.Attributes, int64, error) {
	share, err := k.share()
	if err != nil {
		return a, 0, err
	}
	made, err := b.ensureOnce(ctx, share, k, a, bytes)
	if isFault(err, decide.FaultConflict) && k.recorded == nil {
		earlier, lookup := b.record(ctx, share, k.hint(), k.id.Name)
		if lookup != nil || earlier == nil {
			return a, 0, err
		}
		a.Directory, a.OnDelete = earlier.Directory, earlier.OnDelete
		made, err = b.ensureOnce(ctx, share, k, a, bytes)
	}
	if err != nil {
		return a, 0, err
	}
	a.Directory, a.OnDelete, a.ShareID = made.Directory, made.OnDelete, made.ShareID
	if err := a.Check(); err != nil {
		return a, 0, volume.Refuse(volume.Precondition, "the record of volume %s on the share: %v", k.id, err)
	}
	return a, made.Bytes, nil
}

func (b *Backend) ensureOnce(
	ctx context.Context, share sharedvolume.Share, k known, a sharedvolume.Attributes, bytes int64,
) (made sharedvolume.Directory, err error) {
	w := sharedvolume.Wish{Name: k.id.Name, Directory: a.Directory, OnDelete: a.OnDelete, Bytes: bytes}
	err = b.through(ctx, share, k.hint(), func(ctx context.Context, node string) (err error) {
		made, err = b.Agents.EnsureDirectory(ctx, node, share, w)
		return err
	})
	return made, err
}
