package iscsi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// CreateVolume makes a volume of which all is ready, and that nobody holds. Killed anywhere, it goes on where it was.
func (b *Backend) CreateVolume(ctx context.Context, w frame.Wish) (frame.Volume, error) {
	s, err := b.wanted(ctx, w.Parameters)
	if err != nil {
		return frame.Volume{}, err
	}
	if !w.Topology.Allows(s.owner.Name) {
		return frame.Volume{}, volume.Refuse(volume.Exhausted, "the nodes that were asked for are no initiators of Iscsi %s", s.owner.Name)
	}
	if err := s.inGroup(w.Source); err != nil {
		return frame.Volume{}, err
	}
	var v sharedlun.Volume
	read := false
	err = b.turns(ctx, s, func(ctx context.Context, t turn) (left *sharedlun.Volume, err error) {
		read = true
		v, left, err = b.make(ctx, t, s, w)
		return left, err
	})
	if err != nil {
		return frame.Volume{}, notOver(read, v, err)
	}
	return s.volume(v), nil
}

// inGroup refuses a source on another LUN.
func (s storage) inGroup(source *frame.Source) error {
	if source == nil {
		return nil
	}
	id, err := parse(source.Handle, source.Snapshot)
	if err == nil && id.Group != s.ref.UUID {
		err = volume.Refuse(volume.Invalid, "%s is not on the LUN of Iscsi %s: a volume is copied within its LUN", id, s.name())
	}
	return err
}

// make does what can be done in one turn to make a volume, and returns what has to be zeroed or copied before the next one.
func (b *Backend) make(ctx context.Context, t turn, s storage, w frame.Wish) (sharedlun.Volume, *sharedlun.Volume, error) {
	size, err := w.Size.Size(t.Group.ExtentBytes)
	if err != nil {
		return sharedlun.Volume{}, nil, err
	}
	v := t.volume(w.Name)
	if w.Source != nil {
		if v, err = t.begun(ctx, w.Name); err != nil {
			return sharedlun.Volume{}, nil, err
		}
	}
	made := v == nil
	if made {
		if !s.owner.DeletionTimestamp.IsZero() {
			return sharedlun.Volume{}, nil, volume.Refuse(volume.Precondition, "Iscsi %s is being removed", s.owner.Name)
		}
		one, left, err := b.begin(ctx, t, s, w, size)
		if left != nil || err != nil {
			return one, left, err
		}
		v = &one
	}
	if err := errors.Join(sameSize(*v, w.Size), sameOrigin(*v, w.Source)); err != nil {
		return *v, nil, err
	}
	if made && v.HeldBy == t.Writer() {
		// Its zeroing or its copying begins. It takes as long as it takes, and others may have the turn meanwhile.
		return *v, v, nil
	}
	left, err := b.further(ctx, t, s, *v)
	if now := t.volume(w.Name); err == nil && now != nil {
		return *now, left, nil
	}
	return *v, left, err
}

// further goes on with a volume that is not finished.
func (b *Backend) further(ctx context.Context, t turn, s storage, v sharedlun.Volume) (*sharedlun.Volume, error) {
	if v.Copying() {
		return b.fill(ctx, t, s, v)
	}
	return b.finish(ctx, t, s, v)
}

// begin makes a volume of which nothing is ready. What it is to be a copy of is returned as left while that is filled itself.
func (b *Backend) begin(ctx context.Context, t turn, s storage, w frame.Wish, size int64) (made sharedlun.Volume, left *sharedlun.Volume, err error) {
	if w.Source == nil {
		made, err = t.beginEmpty(ctx, s, w, size)
		return made, nil, err
	}
	id, err := parse(w.Source.Handle, w.Source.Snapshot)
	if err != nil {
		return made, nil, err
	}
	of, left, err := b.origin(ctx, t, s, id)
	if left != nil || err != nil {
		return made, left, err
	}
	size = max(size, of.SizeBytes)
	if err := w.Size.Holds(size); err != nil {
		return made, nil, err
	}
	made, err = t.copyTo(ctx, s, w.Name, size, of, false)
	return made, nil, err
}

// beginEmpty makes a volume that is no copy.
func (t turn) beginEmpty(ctx context.Context, s storage, w frame.Wish, size int64) (sharedlun.Volume, error) {
	first := size
	if s.cleanup() == v1alpha1.CleanupNone {
		// Its beginning is zeroed even so: whatever was there must not be taken for a filesystem of this volume.
		first = t.Group.ExtentBytes
	}
	if size > t.Group.FreeBytes {
		return sharedlun.Volume{}, volume.Refuse(volume.Exhausted, "Iscsi %s has %d bytes free, %d are asked for", s.name(), t.Group.FreeBytes, size)
	}
	if err := t.create(ctx, w.Name, first, fmt.Sprint(sharedlun.TagSize, size)); err != nil {
		return sharedlun.Volume{}, err
	}
	return *t.volume(w.Name), nil
}

// sameSize refuses a volume that was made with another size.
func sameSize(v sharedlun.Volume, asked volume.Range) error {
	have := v.AskedBytes()
	switch {
	case have == 0:
		return volume.Refuse(volume.Conflict, "a volume %s exists that was not made for a claim: it does not say how large it was to be", v.Name)
	case have < asked.Required || asked.Holds(have) != nil:
		return volume.Refuse(volume.Conflict, "volume %s exists with %d bytes", v.Name, have)
	}
	return nil
}

// finish brings a volume that was made to its end: its first part is zeroed by a node that holds it meanwhile, and what is new behind that is zeroed with
// it, or is shown as it is where the policy says so.
//
// The order of the last changes says at every instant what is left: a volume is marked as leaving not later than it is ready, so that one that is ready and
// held without that mark is attached.
func (b *Backend) finish(ctx context.Context, t turn, s storage, v sharedlun.Volume) (*sharedlun.Volume, error) {
	if v.ReadyBytes == 0 {
		left, err := b.zeroFirst(ctx, t, s, v)
		if left != nil || err != nil {
			return left, err
		}
	}
	now, err := t.same(v)
	if err != nil {
		return nil, err
	}
	if now.Leaving {
		if err := t.TakeAway(ctx, now.Name); err != nil {
			return nil, err
		}
	}
	// Only a volume whose content before is shown is made smaller at first.
	if size := now.AskedBytes(); now.SizeBytes < size {
		if err := t.grow(ctx, now, size); err != nil {
			return nil, err
		}
	}
	return nil, b.show(ctx, t, s, now)
}

// zeroFirst has the first part of a volume zeroed by the writer, and makes it ready. A volume that a node zeroes which can go on no more is taken from that
// node first.
func (b *Backend) zeroFirst(ctx context.Context, t turn, s storage, v sharedlun.Volume) (*sharedlun.Volume, error) {
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
		// It takes as long as it takes, and others may have the turn meanwhile.
		return &held, nil
	}
	return b.readied(ctx, t, s, v, t.leave)
}

// show makes what is new at the end of a volume ready as it is, where the policy says so.
func (b *Backend) show(ctx context.Context, t turn, s storage, v sharedlun.Volume) error {
	now, err := t.same(v)
	if err != nil || s.cleanup() != v1alpha1.CleanupNone || !now.Unready() || now.ReadyBytes == 0 {
		return err
	}
	return t.ready(ctx, now)
}

// volume is a volume as the frame knows it.
func (s storage) volume(v sharedlun.Volume) frame.Volume {
	out := frame.Volume{
		Handle: sharedlun.ID{Group: s.ref.UUID, Name: v.Name}.String(), Bytes: v.SizeBytes, Condition: condition(v),
		Context: map[string]string{v1alpha1.ParameterIscsi: s.ref.OwnerUID},
	}
	if s.owner != nil {
		out.Nodes = []string{s.owner.Name}
	}
	if attached(v) && !v.Leaving {
		out.Attached = []string{v.HeldBy}
	}
	return out
}

// attached reports whether a volume is attached to a node, or was and is being taken from it.
func attached(v sharedlun.Volume) bool { return v.HeldBy != "" && v.ReadyBytes > 0 }

func condition(v sharedlun.Volume) volume.Condition {
	switch {
	case v.Copying():
		return volume.Abnormal("it is being copied: nothing of it is shown before it is whole")
	case v.ReadyBytes == 0:
		return volume.Abnormal("it is being made: nothing of it is zeroed yet")
	case v.Leaving:
		return volume.Abnormal(fmt.Sprintf("it is being taken from node %s, which has to answer, or to be fenced", v.HeldBy))
	case v.Unready():
		return volume.Abnormal("it grew, and what is new is zeroed before it is shown")
	}
	return volume.Healthy()
}

// tagged reports whether a volume was made by this driver.
func tagged(v sharedlun.Volume) bool {
	return slices.ContainsFunc(v.Tags, func(tag string) bool { return strings.HasPrefix(tag, sharedlun.TagSize) })
}
