package iscsi

import (
	"context"
	"slices"

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

// create makes a volume that the writer holds, which zeroes it.
func (t turn) create(ctx context.Context, name string, bytes int64, tags ...string) error {
	return t.Change(ctx, sharedlun.Change{Create: &sharedlun.Create{Name: name, SizeBytes: bytes, Tags: tags, HeldBy: t.Writer()}})
}

func (t turn) grow(ctx context.Context, v sharedlun.Volume, bytes int64) error {
	return t.Change(ctx, sharedlun.Change{Grow: &sharedlun.Grow{Name: v.Name, UUID: v.UUID, SizeBytes: bytes}})
}

// ready lets all of a volume be seen.
func (t turn) ready(ctx context.Context, v sharedlun.Volume) error {
	return t.Change(ctx, sharedlun.Change{Ready: &sharedlun.Ready{Name: v.Name, UUID: v.UUID, Bytes: v.SizeBytes}})
}

// confirm refuses to go on with an attached volume while another machine that had the name of its node may have it mapped, too: what the node says
// of its zeroing, and that its device is the only one, does not count then.
func (t turn) confirm(ctx context.Context, v sharedlun.Volume) error {
	if !attached(v) || v.Leaving {
		return nil
	}
	_, err := t.Hold(ctx, v.Name, v.HeldBy)
	return err
}

// leave marks a volume as leaving the node that holds it, and lets all of it be seen.
func (t turn) leave(ctx context.Context, v sharedlun.Volume) error {
	err := t.Change(ctx, sharedlun.Change{Leave: &sharedlun.Hold{Name: v.Name, UUID: v.UUID, Node: v.HeldBy, ReadyBytes: v.SizeBytes}})
	if err != nil {
		return err
	}
	// An older agent marks the volume only.
	if now, err := t.same(v); err != nil || !now.Unready() {
		return err
	}
	return t.ready(ctx, v)
}

func (t turn) remove(ctx context.Context, v sharedlun.Volume) error {
	return t.Remove(ctx, v.Name, v.UUID)
}

// mapped has a volume mapped on the node that holds it.
func (b *Backend) mapped(ctx context.Context, s storage, v sharedlun.Volume, sequence uint64) error {
	cred, err := b.credential(ctx, s, v)
	if err != nil {
		return err
	}
	m, err := b.Nodes.Map(ctx, v.HeldBy, s.ref, cred, v, sequence)
	if err == nil && !m.Shows(v) {
		err = volume.Refuse(volume.Unavailable, "node %s has a device of volume %s that does not show what the LUN has of it: %s", v.HeldBy, v.Name, amiss(m))
	}
	return err
}

// amiss says what is wrong with a device that does not show what it has to, and what a person does if the next call finds it so again.
func amiss(m sharedlun.Mapping) string {
	switch {
	case m.Cut:
		return "it returns errors, because the node was fenced, or because another LUN is in the place of the recorded one. " +
			"It is tried again by itself; if this stays, end the pods that use the volume on that node, and see the Member of the node"
	case m.Suspended:
		return "it is suspended, as a call leaves it that was cut off: whoever reads or writes there waits. " +
			"It is tried again by itself, which resumes it; if this stays, see the log of the agent on that node"
	}
	return "it lies at other places of the LUN, or ends elsewhere, because the volume has grown meanwhile or the device is of an earlier time. " +
		"It is tried again by itself; if this stays, end the pods that use the volume on that node, so that it is mapped anew"
}

// credential is by what the target lets the node write that holds a volume. One that is old by the time it is used is refused.
func (b *Backend) credential(ctx context.Context, s storage, v sharedlun.Volume) (sharedlun.Credential, error) {
	members, err := b.Fleet.Members(ctx, s.ref)
	if err != nil {
		return sharedlun.Credential{}, err
	}
	i := slices.IndexFunc(members, func(m san.Member) bool { return m.Node == v.HeldBy })
	if i < 0 {
		return sharedlun.Credential{}, homeless(s, v)
	}
	return members[i].Credential, nil
}

// credential is that of the node that holds a volume as this turn knows it.
func (t turn) credential(s storage, v sharedlun.Volume) (sharedlun.Credential, error) {
	m, is := t.Member(v.HeldBy)
	if !is {
		return sharedlun.Credential{}, homeless(s, v)
	}
	return m.Credential, nil
}

func homeless(s storage, v sharedlun.Volume) error {
	return volume.Refuse(volume.Unavailable, "node %s, which holds volume %s, is no initiator of Iscsi %s", v.HeldBy, v.Name, s.name())
}

// zeroed asks the node that holds a volume to zero what is not ready, and tells how far that is. It does so through a device of its own, which nobody else sees.
func (b *Backend) zeroed(ctx context.Context, s storage, cred sharedlun.Credential, v sharedlun.Volume) (sharedlun.Progress, error) {
	return b.Nodes.Zero(ctx, v.HeldBy, s.ref, cred, v, s.discards())
}
