package iscsi

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/sharedlun"
)

// recordEvery is how much of a copy is made until the LUN is told how far it is: another node goes on from there.
const recordEvery = 256 << 20

// origin is the volume, or the snapshot, that a copy is made of. Its content stays as it is from the moment in which the copy is on the LUN until that is whole: no node
// may have it then. One that was begun to be taken from its node is taken from it. One that is a copy itself is returned as left while it is filled.
func (b *Backend) origin(ctx context.Context, t turn, s storage, id sharedlun.ID) (of sharedlun.Volume, left *sharedlun.Volume, err error) {
	v := t.volume(id.Name)
	switch {
	case v == nil:
	case v.Copying():
		left, err = b.fill(ctx, t, s, *v)
	case attached(*v) && v.Leaving:
		err = t.TakeAway(ctx, v.Name)
	}
	if left != nil || err != nil {
		return of, left, err
	}
	v = t.volume(id.Name)
	switch {
	case v == nil || !tagged(*v) || v.Snapshot != id.IsSnapshot():
		return of, nil, absent(id.String())
	case v.ReadyBytes == 0:
		return of, nil, volume.Refuse(volume.Unavailable, "volume %s is being made itself: nothing of it is shown yet", id)
	case v.HeldBy != "":
		return of, nil, volume.Refuse(volume.Precondition, "volume %s is attached to node %s: it is copied while no node has it, so that the copy is of one moment. "+
			"It is tried again by itself: end the pods that use the volume, until it is copied", id, v.HeldBy)
	}
	return *v, nil, nil
}

// copyTo makes a copy of a volume on the LUN, of which nothing is there yet, and which the writer holds. The name is not taken.
func (t turn) copyTo(ctx context.Context, s storage, name string, bytes int64, of sharedlun.Volume, snapshot bool) (sharedlun.Volume, error) {
	if bytes > t.Group.FreeBytes {
		return sharedlun.Volume{}, volume.Refuse(volume.Exhausted, "Iscsi %s has %d bytes free, %d are asked for", s.name(), t.Group.FreeBytes, bytes)
	}
	create := &sharedlun.Create{
		Name: name, SizeBytes: bytes, Tags: []string{fmt.Sprint(sharedlun.TagSize, bytes)}, Snapshot: snapshot, HeldBy: t.Writer(),
		Origin: sharedlun.Origin{Name: of.Name, UUID: of.UUID, Bytes: of.ReadyBytes},
	}
	if err := t.Change(ctx, sharedlun.Change{Create: create}); err != nil {
		return sharedlun.Volume{}, err
	}
	v := t.volume(name)
	if v == nil || v.Origin != create.Origin || v.Snapshot != snapshot {
		// An agent of an earlier version made a volume that is none. Nobody has seen it.
		late := volume.Refuse(volume.Unavailable, "the agent on node %s makes no copies: it is of an earlier version", t.Writer())
		if v != nil {
			if err := t.discard(ctx, *v); err != nil {
				return *v, err
			}
		}
		return sharedlun.Volume{}, late
	}
	return *v, nil
}

// discard removes a volume, and takes it from the node that has it before.
func (t turn) discard(ctx context.Context, v sharedlun.Volume) error {
	if err := t.TakeAway(ctx, v.Name); err != nil {
		return err
	}
	return t.remove(ctx, v)
}

// begun returns the volume of a name under which a copy is wanted; nil when nothing is there. What an agent of an earlier version made in place of the copy is removed: this driver may have died
// before it could do that itself. Nothing of it is ready, so that nobody has it, and it is begun anew, as is a copy that is void.
func (t turn) begun(ctx context.Context, name string) (*sharedlun.Volume, error) {
	v := t.volume(name)
	if v != nil && v.Void {
		return nil, t.discard(ctx, *v)
	}
	if v == nil || v.Origin != (sharedlun.Origin{}) || v.Snapshot || v.ReadyBytes > 0 || v.Used || v.MakingOn != "" || !tagged(*v) {
		return v, nil
	}
	return nil, t.discard(ctx, *v)
}

// fill does what can be done in one turn to bring a copy to its end, and returns it while a node fills it; nil when it is whole. The writer fills it, and another one
// takes over from a node that can go on no more.
//
// The LUN says at every instant what is left: that all has reached it is noted while the node holds the copy, and it is shown once nobody holds it any more.
func (b *Backend) fill(ctx context.Context, t turn, s storage, v sharedlun.Volume) (*sharedlun.Volume, error) {
	if v.Void {
		return nil, volume.Refuse(volume.Unavailable, "the copy %s is being deleted, and never becomes whole", v.Name)
	}
	if v.CopiedBytes < v.SizeBytes {
		left, err := b.fillMore(ctx, t, s, v)
		if left != nil || err != nil {
			return left, err
		}
	}
	if err := t.TakeAway(ctx, v.Name); err != nil {
		return nil, err
	}
	now, err := t.same(v)
	if err != nil {
		return nil, err
	}
	return nil, t.ready(ctx, now)
}

// fillMore has a node fill a copy, and notes how far it is. It returns nil when all of the copy has reached the LUN.
func (b *Backend) fillMore(ctx context.Context, t turn, s storage, v sharedlun.Volume) (*sharedlun.Volume, error) {
	lost := t.lost(v)
	if lost {
		if err := t.TakeAway(ctx, v.Name); err != nil {
			return nil, err
		}
	}
	if v.HeldBy == "" || v.Leaving || lost {
		held, err := t.Hold(ctx, v.Name, t.Writer())
		if err != nil {
			return nil, err
		}
		return &held, nil
	}
	cred, err := t.credential(s, v)
	if err != nil {
		return nil, err
	}
	p, err := b.copied(ctx, s, cred, v)
	if err != nil {
		return nil, err
	}
	if p.Done || p.DoneBytes-v.CopiedBytes >= recordEvery {
		if err := t.Change(ctx, sharedlun.Change{Copied: &sharedlun.Copied{Name: v.Name, UUID: v.UUID, Bytes: p.DoneBytes}}); err != nil {
			return nil, err
		}
	}
	if p.Done {
		return nil, nil
	}
	now, err := t.same(v)
	return &now, err
}

// fillCopies brings the copies of a volume to their ends, even if nobody asks for them any more: until then the volume is neither attached nor removed. It returns one that a
// node fills; nil when all are whole.
func (b *Backend) fillCopies(ctx context.Context, t turn, s storage, of sharedlun.Volume) (*sharedlun.Volume, error) {
	for _, c := range t.Group.Copies(of.UUID) {
		left, err := b.fill(ctx, t, s, c)
		if left != nil || err != nil {
			return left, err
		}
	}
	return nil, nil
}

// copied asks the node that holds a copy how far it is, and to go on.
func (b *Backend) copied(ctx context.Context, s storage, cred sharedlun.Credential, v sharedlun.Volume) (sharedlun.Progress, error) {
	return b.Nodes.Copy(ctx, v.HeldBy, s.ref, cred, v, s.discards(), s.copyRate())
}

// waitCopied waits until the node that holds a copy has filled it, as long as the call has time for it.
func (b *Backend) waitCopied(ctx context.Context, s storage, v sharedlun.Volume) error {
	cred, err := b.credential(ctx, s, v)
	if err != nil {
		return err
	}
	var p sharedlun.Progress
	late := func() error {
		return volume.Refuse(volume.Unfinished, "volume %s is being copied to %s on node %s: %s of %s are done", v.Origin.Name, v.Name, v.HeldBy, decide.Bytes(p.DoneBytes), decide.Bytes(p.Total))
	}
	return b.until(ctx, late, func() (bool, error) {
		p, err = b.copied(ctx, s, cred, v)
		return p.Done, err
	})
}

// turns takes one turn after the other until do leaves nothing that a node has to zero or to copy in between.
func (b *Backend) turns(ctx context.Context, s storage, do func(ctx context.Context, t turn) (left *sharedlun.Volume, err error)) error {
	for {
		var left *sharedlun.Volume
		err := b.turn(ctx, s, func(ctx context.Context, t turn) (err error) {
			left, err = do(ctx, t)
			return err
		})
		switch {
		case err != nil || left == nil:
			return err
		case left.Copying():
			err = b.waitCopied(ctx, s, *left)
			if fault, is := errors.AsType[*decide.Fault](err); is && (fault.Kind == decide.FaultNotFound || fault.Kind == decide.FaultPrecondition) {
				// Somebody removed the copy meanwhile, brought it to its end, or gave it to another node: the next turn finds what is there.
				err = nil
			}
		default:
			err = b.wait(ctx, s, *left)
		}
		if err != nil {
			return err
		}
	}
}

// sameOrigin refuses a volume that was made with the content of another one than is asked for.
func sameOrigin(v sharedlun.Volume, source *frame.Source) error {
	want := ""
	if source != nil {
		id, err := parse(source.Handle, source.Snapshot)
		if err != nil {
			return err
		}
		want = id.Name
	}
	if v.Origin.Name != want || v.Snapshot {
		return volume.Refuse(volume.Conflict, "volume %s exists with the content of %q, not of %q", v.Name, v.Origin.Name, want)
	}
	return nil
}
