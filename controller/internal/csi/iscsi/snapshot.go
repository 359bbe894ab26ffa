package iscsi

import (
	"context"
	"errors"
	"iter"
	"time"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/sharedlun"
)

// CreateSnapshot makes a snapshot of a volume that no node has: a whole copy. It is of the moment in which it is on the LUN, for nobody gets the volume from then on until it is
// copied. A call that has no time for that returns a snapshot that is being made, and the next one goes on.
func (b *Backend) CreateSnapshot(ctx context.Context, name, source string) (frame.Snapshot, error) {
	of, err := parse(source, false)
	if err != nil {
		return frame.Snapshot{}, err
	}
	s, err := b.of(ctx, of)
	if err != nil {
		return frame.Snapshot{}, err
	}
	var made sharedlun.Volume
	begun, read := false, false
	err = b.turns(ctx, s, func(ctx context.Context, t turn) (left *sharedlun.Volume, err error) {
		read = true
		v, err := t.begun(ctx, name)
		if err != nil {
			return nil, err
		}
		if v == nil {
			made, left, err = b.beginSnapshot(ctx, t, s, name, of)
			begun = made.UUID != ""
			return left, err
		}
		if v.Origin.Name != of.Name || !v.Snapshot {
			return nil, volume.Refuse(volume.Conflict, "snapshot %s exists, of volume %q", name, v.Origin.Name)
		}
		if made = *v; !v.Copying() {
			return nil, nil
		}
		left, err = b.fill(ctx, t, s, *v)
		if now := t.volume(name); now != nil {
			made = *now
		}
		return left, err
	})
	late, is := errors.AsType[*volume.Refusal](err)
	if made.Copying() && (begun || is && late.Kind == volume.Unfinished) {
		// Whoever asked has to know the handle, even if something is in the way of the copying: otherwise nobody could delete the snapshot, which holds its volume. The next call tells what it is.
		err = nil
	}
	return s.snapshot(made), notOver(read, made, err)
}

// beginSnapshot makes a snapshot of which nothing is there. It is returned as left, for its copying begins; a volume that is a copy itself is, while it is filled.
func (b *Backend) beginSnapshot(
	ctx context.Context, t turn, s storage, name string, id sharedlun.ID,
) (made sharedlun.Volume, left *sharedlun.Volume, err error) {
	of, left, err := b.origin(ctx, t, s, id)
	if left != nil || err != nil {
		return made, left, err
	}
	if made, err = t.copyTo(ctx, s, name, of.SizeBytes, of, true); err != nil {
		return made, nil, err
	}
	if made.HeldBy == t.Writer() {
		return made, &made, nil
	}
	// An agent that does not know of volumes which are held from their beginning.
	left, err = b.fill(ctx, t, s, made)
	return made, left, err
}

// DeleteSnapshot removes a snapshot; volumes that were restored from it stay. One that is being made is not made any more then.
func (b *Backend) DeleteSnapshot(ctx context.Context, handle string) error {
	id, err := parse(handle, true)
	if err != nil {
		return err
	}
	return b.delete(ctx, id)
}

// Snapshot returns a snapshot.
func (b *Backend) Snapshot(ctx context.Context, handle string) (frame.Snapshot, error) {
	id, err := parse(handle, true)
	if err != nil {
		return frame.Snapshot{}, err
	}
	s, err := b.of(ctx, id)
	if err != nil {
		return frame.Snapshot{}, err
	}
	g, err := b.group(ctx, s)
	if err != nil {
		return frame.Snapshot{}, err
	}
	v := g.Volume(id.Name)
	if v == nil || !v.Snapshot {
		return frame.Snapshot{}, absent(handle)
	}
	return s.snapshot(*v), nil
}

// Snapshots yields the snapshots of all storages, of one volume, or one of them, ordered by handle. A group that cannot be read ends the list with an error: which snapshots it has is
// not known.
func (b *Backend) Snapshots(ctx context.Context, f frame.Filter, from string) iter.Seq2[frame.Snapshot, error] {
	return func(yield func(frame.Snapshot, error) bool) {
		only, err := b.groupOf(ctx, f)
		if err != nil {
			yield(frame.Snapshot{}, err)
			return
		}
		for g, err := range b.groups(ctx, from, only) {
			if err != nil {
				yield(frame.Snapshot{}, err)
				return
			}
			for _, v := range g.Volumes {
				one := g.snapshot(v)
				fits := v.Snapshot && one.Handle >= from && (f.Handle == "" || f.Handle == one.Handle) && (f.Of == "" || f.Of == one.Of)
				if fits && !yield(one, nil) {
					return
				}
			}
		}
	}
}

// groupOf returns the group in which snapshots are looked for; empty for all of them. One that no Member has on record may exist all the same.
func (b *Backend) groupOf(ctx context.Context, f frame.Filter) (group string, err error) {
	for _, wanted := range []struct {
		handle   string
		snapshot bool
	}{{f.Handle, true}, {f.Of, false}} {
		if wanted.handle == "" {
			continue
		}
		id, err := parse(wanted.handle, wanted.snapshot)
		if err != nil {
			return "", err
		}
		if _, err := b.of(ctx, id); err != nil {
			return "", err
		}
		group = id.Group
	}
	return group, nil
}

// snapshot is a snapshot as the frame knows it.
func (s storage) snapshot(v sharedlun.Volume) frame.Snapshot {
	out := frame.Snapshot{Handle: sharedlun.ID{Group: s.ref.UUID, Name: v.Name}.String(), Bytes: v.SizeBytes, Making: v.Copying()}
	if v.Origin.Name != "" {
		out.Of = sharedlun.ID{Group: s.ref.UUID, Name: v.Origin.Name}.String()
	}
	if v.CreatedUnix > 0 {
		out.Created = time.Unix(v.CreatedUnix, 0)
	}
	return out
}
