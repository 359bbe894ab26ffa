package iscsi

import (
	"context"
	"errors"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// turn is a turn of the SAN in the words of this package. Only this file knows how changes are worded.
type turn struct{ *san.Turn }

// turn takes the turn for the group of a storage.
func (b *Backend) turn(ctx context.Context, s storage, do func(ctx context.Context, t turn) error) error {
	return b.SAN.Turn(ctx, s.ref, func(ctx context.Context, t *san.Turn) error { return do(ctx, turn{t}) })
}

// volume is a volume of the group as it is now; nil when the group has none of that name.
func (t turn) volume(name string) *sharedlun.Volume {
	v := t.Group.Volume(name)
	if v == nil {
		return nil
	}
	out := *v
	return &out
}

// same is the volume as it is now, if it is still that one.
func (t turn) same(v sharedlun.Volume) (sharedlun.Volume, error) {
	now := t.volume(v.Name)
	if now == nil || now.UUID != v.UUID {
		return v, volume.Refuse(volume.NotFound, "volume %s (%s) does not exist any more", v.Name, v.UUID)
	}
	return *now, nil
}

func (t turn) create(ctx context.Context, name string, bytes int64, tags ...string) error {
	return t.Change(ctx, sharedlun.Change{Create: &sharedlun.Create{Name: name, SizeBytes: bytes, Tags: tags}})
}

func (t turn) grow(ctx context.Context, v sharedlun.Volume, bytes int64) error {
	return t.Change(ctx, sharedlun.Change{Grow: &sharedlun.Grow{Name: v.Name, SizeBytes: bytes}})
}

// ready lets all of a volume be seen.
func (t turn) ready(ctx context.Context, v sharedlun.Volume) error {
	return t.Change(ctx, sharedlun.Change{Ready: &sharedlun.Ready{Name: v.Name, Bytes: v.SizeBytes}})
}

// leave marks a volume as leaving the node that holds it.
func (t turn) leave(ctx context.Context, v sharedlun.Volume) error {
	return t.Change(ctx, sharedlun.Change{Leave: &sharedlun.Hold{Name: v.Name, Node: v.HeldBy}})
}

func (t turn) remove(ctx context.Context, v sharedlun.Volume) error {
	return t.Change(ctx, sharedlun.Change{Remove: &sharedlun.Remove{Name: v.Name, UUID: v.UUID}})
}

// mapped has a volume mapped on the node that holds it.
func (b *Backend) mapped(ctx context.Context, s storage, v sharedlun.Volume, sequence uint64) error {
	_, err := b.Nodes.Map(ctx, v.HeldBy, s.ref, v, sequence)
	return err
}

// tries is how often zeroing is asked for that a node refuses.
const tries = 6

// zeroed asks the node that holds a volume to zero what is not ready, and tells how far that is. A node that has no device for it makes one first, and udev
// has that open for a moment: nothing is zeroed that is open.
func (b *Backend) zeroed(ctx context.Context, s storage, v sharedlun.Volume, sequence uint64) (p sharedlun.Progress, err error) {
	for try := range tries {
		if p, err = b.Nodes.Zero(ctx, v.HeldBy, s.ref, v, s.discards()); !refused(err) {
			return p, err
		}
		if err := b.mapped(ctx, s, v, sequence); err != nil {
			return p, err
		}
		if try == 0 {
			continue
		}
		select {
		case <-time.After(b.Pause):
		case <-ctx.Done():
			return p, err
		}
	}
	return p, err
}

// refused reports whether a node has no device to zero, or does not zero the one that it has.
func refused(err error) bool {
	var f *decide.Fault
	return errors.As(err, &f) && (f.Kind == decide.FaultNotFound || f.Kind == decide.FaultPrecondition)
}
