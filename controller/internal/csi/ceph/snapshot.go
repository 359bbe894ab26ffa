package ceph

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/cephvolume"
)

// CreateSnapshot makes a snapshot, which is of one moment and can be restored at once. Ceph keeps snapshots with their volumes: two volumes may each have one of the
// same name, and their handles differ.
func (b *Backend) CreateSnapshot(ctx context.Context, name, of string) (frame.Snapshot, error) {
	id, err := parse(of)
	if err != nil {
		return frame.Snapshot{}, err
	}
	made, err := b.makeSnapshot(ctx, id, name)
	return made, told(err)
}

func (b *Backend) makeSnapshot(ctx context.Context, id cephvolume.ID, name string) (frame.Snapshot, error) {
	s, v, err := b.found(ctx, id)
	if err != nil {
		return frame.Snapshot{}, err
	}
	if v.State != subvolume.Whole {
		return frame.Snapshot{}, volume.Refuse(volume.Unavailable, "volume %s is %s: it has snapshots once it is whole", id, v.State)
	}
	if err := s.CreateSnapshot(ctx, id.Name, name); err != nil {
		return frame.Snapshot{}, err
	}
	made, err := s.Snapshot(ctx, id.Name, name)
	if err != nil {
		return frame.Snapshot{}, err
	}
	return s.snapshot(made, v.Bytes), nil
}

// snapshot is a snapshot as the frame knows it. Ceph does not say how large the volume was then; it was not larger than it is now.
func (s site) snapshot(m subvolume.Snapshot, bytes int64) frame.Snapshot {
	of := cephvolume.ID{FSID: s.fsid(), Name: m.Of}
	return frame.Snapshot{Handle: cephvolume.SnapshotID{Of: of, Name: m.Name}.String(), Of: of.String(), Bytes: bytes, Created: m.Created}
}

// DeleteSnapshot removes a snapshot. One of which copies are being made is removed once they are whole.
func (b *Backend) DeleteSnapshot(ctx context.Context, handle string) error {
	id, err := parseSnapshot(handle)
	if err != nil {
		return err
	}
	s, err := b.site(ctx, id.Of.FSID)
	if err == nil {
		err = s.RemoveSnapshot(ctx, id.Of.Name, id.Name)
	}
	if errors.Is(err, subvolume.ErrBusy) {
		err = volume.Refuse(volume.Unfinished, "snapshot %s is being copied: it is removed when that has ended", handle)
	}
	return told(err)
}

// Snapshot returns a snapshot, also of a volume that was deleted.
func (b *Backend) Snapshot(ctx context.Context, handle string) (frame.Snapshot, error) {
	id, err := parseSnapshot(handle)
	if err != nil {
		return frame.Snapshot{}, err
	}
	s, err := b.site(ctx, id.Of.FSID)
	var one frame.Snapshot
	if err == nil {
		one, err = s.one(ctx, id.Of.Name, id.Name)
	}
	if errors.Is(err, subvolume.ErrAbsent) {
		err = absent(handle)
	}
	return one, told(err)
}

func (s site) one(ctx context.Context, of, name string) (frame.Snapshot, error) {
	m, err := s.Client.Snapshot(ctx, of, name)
	if err != nil {
		return frame.Snapshot{}, err
	}
	v, err := s.Volume(ctx, of)
	return s.snapshot(m, v.Bytes), err
}

// Snapshots yields the snapshots of all Clusters, of one volume, or one of them, ordered by handle. A Ceph cluster that cannot be asked ends the list with an
// error: which snapshots it has is not known.
func (b *Backend) Snapshots(ctx context.Context, f frame.Filter, from string) iter.Seq2[frame.Snapshot, error] {
	return func(yield func(frame.Snapshot, error) bool) {
		err := b.each(ctx, f, func(s frame.Snapshot) bool { return s.Handle < from || f.Of != "" && s.Of != f.Of || yield(s, nil) })
		if err != nil {
			yield(frame.Snapshot{}, told(err))
		}
	}
}

// each calls do with snapshots in order, until it returns false.
func (b *Backend) each(ctx context.Context, f frame.Filter, do func(frame.Snapshot) bool) error {
	if f.Handle != "" {
		one, err := b.Snapshot(ctx, f.Handle)
		if refused, is := errors.AsType[*volume.Refusal](err); is && refused.Kind == volume.NotFound {
			return nil
		}
		if err == nil {
			do(one)
		}
		return err
	}
	if f.Of != "" {
		id, err := parse(f.Of)
		if err != nil {
			return err
		}
		s, err := b.site(ctx, id.FSID)
		if err != nil {
			return err
		}
		_, err = s.ofVolume(ctx, id.Name, do)
		return err
	}
	owners, err := b.clusters(ctx)
	if err != nil {
		return err
	}
	for _, fsid := range slices.Sorted(maps.Keys(owners)) {
		s, err := b.open(ctx, owners[fsid])
		if err != nil {
			return err
		}
		names, err := s.Names(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if on, err := s.ofVolume(ctx, name, do); err != nil || !on {
				return err
			}
		}
	}
	return nil
}

// ofVolume calls do with the snapshots of one volume that somebody asked for.
func (s site) ofVolume(ctx context.Context, name string, do func(frame.Snapshot) bool) (on bool, err error) {
	if !cephvolume.ValidName(name) {
		return true, nil
	}
	v, err := s.Volume(ctx, name)
	if errors.Is(err, subvolume.ErrAbsent) || err == nil && v.State != subvolume.Whole && v.State != subvolume.Retained {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	list, err := s.Client.Snapshots(ctx, name)
	if errors.Is(err, subvolume.ErrAbsent) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, snapshot := range list {
		if !cephvolume.ValidSnapshotName(snapshot) {
			continue
		}
		m, err := s.Client.Snapshot(ctx, name, snapshot)
		if errors.Is(err, subvolume.ErrAbsent) {
			continue
		}
		if err != nil {
			return false, err
		}
		if !do(s.snapshot(m, v.Bytes)) {
			return false, nil
		}
	}
	return true, nil
}
