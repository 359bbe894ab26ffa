package ceph

import (
	"context"
	"errors"

	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/cephvolume"
)

// origin is the snapshot that a wanted volume is copied from; nil for an empty volume. A volume is copied from a snapshot that is made for the copy alone, and
// whose name says for which.
func (s site) origin(w frame.Wish) (*subvolume.Source, error) {
	if w.Source == nil {
		return nil, nil
	}
	var of subvolume.Source
	var fsid string
	if w.Source.Snapshot {
		id, err := parseSnapshot(w.Source.Handle)
		if err != nil {
			return nil, err
		}
		fsid, of = id.Of.FSID, subvolume.Source{Volume: id.Of.Name, Snapshot: id.Name}
	} else {
		id, err := parse(w.Source.Handle)
		if err != nil {
			return nil, err
		}
		fsid, of = id.FSID, subvolume.Source{Volume: id.Name, Snapshot: cephvolume.CopyName(w.Name)}
	}
	if fsid != s.fsid() {
		return nil, volume.Refuse(volume.Invalid, "%s is not in the Ceph cluster of Cluster %s: a volume is copied within its Ceph cluster", w.Source.Handle, s.owner.Name)
	}
	return &of, nil
}

// beginCopy begins a copy under a name that is free. Killed between its two commands it leaves a snapshot, which the next call uses.
func (s site) beginCopy(ctx context.Context, w frame.Wish, of subvolume.Source) error {
	v, err := s.Volume(ctx, of.Volume)
	if err != nil {
		return err
	}
	if err := w.Size.Holds(v.Bytes); err != nil {
		return err
	}
	if err := s.fits(ctx, w, v); err != nil {
		return err
	}
	if !w.Source.Snapshot {
		if v.State != subvolume.Whole {
			return volume.Refuse(volume.NotFound, "volume %s is %s: nothing of it can be copied", w.Source.Handle, v.State)
		}
		if err := s.CreateSnapshot(ctx, of.Volume, of.Snapshot); err != nil {
			return err
		}
	}
	return s.Copy(ctx, of, w.Name)
}

// fits refuses a copy that Ceph has no room for: it would fill the disks until nothing can be written to any volume, fail, and be begun anew. A tenth of the room is left for everybody else.
func (s site) fits(ctx context.Context, w frame.Wish, of subvolume.Volume) error {
	room, err := s.Room(ctx)
	if err != nil {
		return err
	}
	need, what := max(0, of.Used), "has"
	if w.Source.Snapshot {
		// What the volume has now says nothing of a snapshot, and Ceph does not say how large that is.
		need, what = 1, "has at least"
	}
	if s.tight.has(w.Name) {
		need, what = max(need, of.Bytes, w.Size.Required), "may have"
	}
	if need <= room-room/10 {
		return nil
	}
	return volume.Refuse(volume.Exhausted, "there is no room for the copy %s: its source %s %d bytes, and %d can be written yet, of which a tenth stays free", w.Name, what, need, room)
}

// finishCopy makes a copy that is whole as large as is wanted, and removes the snapshot that was made for it. A copy is never smaller than its source.
func (s site) finishCopy(ctx context.Context, w frame.Wish, of subvolume.Source, v subvolume.Volume, size int64) (subvolume.Volume, error) {
	if err := w.Size.Holds(v.Bytes); err != nil {
		return v, err
	}
	if v.Bytes < size {
		if err := s.Grow(ctx, v, size); err != nil {
			return v, err
		}
		v.Bytes = size
	}
	s.tight.note(w.Name, false)
	return v, s.dropCopySource(ctx, of)
}

// dropCopySource removes a snapshot that was made for a copy alone. Any other one stays.
func (s site) dropCopySource(ctx context.Context, of subvolume.Source) error {
	if _, ours := cephvolume.CopyTarget(of.Snapshot); !ours {
		return nil
	}
	return s.RemoveSnapshot(ctx, of.Volume, of.Snapshot)
}

// dropStray removes the snapshots of a volume that were made for copies which do not exist: nobody else would.
func (s site) dropStray(ctx context.Context, of string) error {
	list, err := s.Snapshots(ctx, of)
	if err != nil {
		return err
	}
	for _, snapshot := range list {
		target, ours := cephvolume.CopyTarget(snapshot)
		if !ours {
			continue
		}
		_, err := s.Volume(ctx, target)
		if errors.Is(err, subvolume.ErrAbsent) {
			err = s.RemoveSnapshot(ctx, of, snapshot)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
