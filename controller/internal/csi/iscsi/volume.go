package iscsi

import (
	"context"
	"errors"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// DeleteVolume removes a volume that no node holds. One of which nothing is ready is taken from the node that zeroes or fills it first, and one that is being
// taken from its node is let go of.
func (b *Backend) DeleteVolume(ctx context.Context, handle string) error {
	id, err := parse(handle, false)
	if err != nil {
		return err
	}
	return b.delete(ctx, id)
}

// delete removes a volume or a snapshot, once the copies that are made of it are whole.
func (b *Backend) delete(ctx context.Context, id sharedlun.ID) error {
	s, err := b.of(ctx, id)
	if err != nil {
		return err
	}
	return b.turns(ctx, s, func(ctx context.Context, t turn) (*sharedlun.Volume, error) {
		v := t.volume(id.Name)
		switch {
		case v == nil:
			return nil, nil
		case !tagged(*v) || v.Snapshot != id.IsSnapshot():
			return nil, volume.Refuse(volume.Precondition, "volume %s was not made by this driver: it is left alone", id)
		case attached(*v) && !v.Leaving:
			return nil, volume.Refuse(volume.Precondition, "volume %s is attached to node %s: detach it first", id, v.HeldBy)
		}
		if left, err := b.fillCopies(ctx, t, s, *v); left != nil || err != nil {
			return left, err
		}
		if err := t.void(ctx, *v); err != nil {
			return nil, err
		}
		return nil, t.discard(ctx, *v)
	})
}

// void says of a copy that is to be removed, and that a node fills which may not answer, that nobody wants it any more: its origin does not wait until the node is fenced then.
func (t turn) void(ctx context.Context, v sharedlun.Volume) error {
	if !v.Copying() || v.Void || v.HeldBy == "" || v.HeldBy == t.Writer() {
		return nil
	}
	err := t.Change(ctx, sharedlun.Change{Void: &sharedlun.Void{Name: v.Name, UUID: v.UUID}})
	if fault, is := errors.AsType[*decide.Fault](err); is && san.Answered(err) && fault.Kind == decide.FaultInvalid {
		// An agent of an earlier version knows no void copies: the origin waits.
		return nil
	}
	return err
}

// ExpandVolume makes a volume larger, also while it is used. What is new is zeroed before the node that holds the volume shows it; of a volume that
// nobody holds that is done when it is attached next.
func (b *Backend) ExpandVolume(ctx context.Context, handle string, size volume.Range) (int64, error) {
	s, name, err := b.find(ctx, handle)
	if err != nil {
		return 0, err
	}
	var v sharedlun.Volume
	var sequence uint64
	err = b.turn(ctx, s, func(ctx context.Context, t turn) error {
		now := t.volume(name)
		switch {
		case now == nil:
			return absent(handle)
		case now.ReadyBytes == 0:
			return volume.Refuse(volume.Precondition, "volume %s is being made: nothing of it is zeroed yet", handle)
		}
		want, err := size.Size(t.Group.ExtentBytes)
		if err != nil {
			return err
		}
		if err := t.confirm(ctx, *now); err != nil {
			return err
		}
		if now.SizeBytes < want {
			if err := t.grow(ctx, *now, want); err != nil {
				return err
			}
		}
		if err := b.show(ctx, t, s, *now); err != nil {
			return err
		}
		v, err = t.same(*now)
		sequence = t.Group.Sequence
		return err
	})
	if err == nil && attached(v) && !v.Leaving {
		v, _, err = b.settle(ctx, s, v, sequence)
	}
	return v.SizeBytes, err
}
