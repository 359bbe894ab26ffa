package ceph

import (
	"context"
	"errors"

	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/pkg/cephvolume"
)

// DeleteVolume removes a volume. Its snapshots stay, and can still be restored. A volume is gone only if the monitors of its own Ceph cluster say so.
func (b *Backend) DeleteVolume(ctx context.Context, handle string) error {
	id, err := parse(handle)
	if err != nil {
		return err
	}
	s, err := b.site(ctx, id.FSID)
	if err == nil {
		err = s.remove(ctx, id)
	}
	return told(err)
}

func (s site) remove(ctx context.Context, id cephvolume.ID) error {
	s.tight.note(id.Name, false)
	v, err := s.Volume(ctx, id.Name)
	switch {
	case errors.Is(err, subvolume.ErrAbsent):
		return nil
	case err != nil:
		return err
	case v.State == subvolume.Retained:
		return s.dropStray(ctx, id.Name)
	case v.State == subvolume.Copying:
		if err := s.Cancel(ctx, id.Name); err != nil && !errors.Is(err, subvolume.ErrAbsent) {
			return err
		}
	case v.State == subvolume.Whole:
		if err := s.dropStray(ctx, id.Name); err != nil {
			return err
		}
	}
	// What the copy was made from goes first: afterwards nobody would know of it.
	if v.Source != nil {
		if err := s.dropCopySource(ctx, *v.Source); err != nil {
			return err
		}
	}
	if v.State == subvolume.Whole {
		return s.Remove(ctx, id.Name)
	}
	return s.Discard(ctx, id.Name)
}
