package iscsi

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Attach gives a volume to a node and has it mapped there. What is new at its end is zeroed there before the device shows it. A volume that no pod has seen gets
// its first filesystem before the call returns.
func (b *Backend) Attach(ctx context.Context, a frame.Attachment) (map[string]string, error) {
	s, name, err := b.find(ctx, a.Handle)
	if err != nil {
		return nil, err
	}
	if done := b.again(ctx, s, a); done != nil {
		return done, nil
	}
	var v sharedlun.Volume
	var member san.Member
	var sequence uint64
	err = b.turns(ctx, s, func(ctx context.Context, t turn) (*sharedlun.Volume, error) {
		now := t.volume(name)
		_, is := t.Member(a.Node)
		switch {
		case now == nil:
			return nil, absent(a.Handle)
		case !is:
			return nil, volume.Refuse(volume.NotFound, "node %s is no initiator of Iscsi %s", volume.Quote(a.Node), s.name())
		case now.ReadyBytes == 0:
			return nil, volume.Refuse(volume.Precondition, "volume %s is being made: nothing of it is shown yet", a.Handle)
		}
		// Its content does not change while it is copied.
		if left, err := b.fillCopies(ctx, t, s, *now); left != nil || err != nil {
			return left, err
		}
		v, err = b.give(ctx, t, s, *now, a)
		member, _ = t.Member(a.Node)
		sequence = t.Group.Sequence
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	// Nobody has to have the turn for it: the node maps the volume only if the LUN says that it is its own.
	if v, sequence, err = b.settle(ctx, s, v, sequence); err != nil {
		return nil, err
	}
	if err := b.format(ctx, s, v, cmp.Or(a.Access.FSType, filesystem.Default)); err != nil {
		return nil, err
	}
	b.keep(a.Handle, attachment{member: member, volume: v, sequence: sequence, at: time.Now()})
	return sharedlun.Attached{Ref: s.ref, UUID: v.UUID}.Map(), nil
}

// repeatedWithin is how long after an attachment a repeated call for it may be answered by the node alone. The attacher mostly calls once more at once: it has not seen yet what it
// wrote itself.
const repeatedWithin = 30 * time.Second

// attachment is what a call of Attach ended with: a volume that pods may see, and the node that has it, as it was known then.
type attachment struct {
	member   san.Member
	volume   sharedlun.Volume
	sequence uint64
	at       time.Time
}

// again attaches a volume that was just attached to the same node, without a turn. It returns nil unless the node is what it was, and says that the LUN still has the volume as its own, that its
// key counts there, and that the device shows what it has to: then nothing that a turn would do is left. What is remembered says only whether it is worth to ask.
func (b *Backend) again(ctx context.Context, s storage, a frame.Attachment) map[string]string {
	b.mu.Lock()
	last, is := b.attachments[a.Handle]
	b.mu.Unlock()
	if !is || last.member.Node != a.Node || time.Since(last.at) > repeatedWithin {
		return nil
	}
	members, err := b.Fleet.Members(ctx, s.ref)
	unchanged := err == nil && slices.ContainsFunc(members, func(m san.Member) bool { return m.Usable() && reflect.DeepEqual(m, last.member) })
	if unchanged {
		var m sharedlun.Mapping
		m, err = b.Nodes.Map(ctx, a.Node, s.ref, last.member.Credential, last.volume, last.sequence)
		unchanged = m.Shows(last.volume)
	}
	if !unchanged || err != nil {
		b.forget(a.Handle)
		return nil
	}
	return sharedlun.Attached{Ref: s.ref, UUID: last.volume.UUID}.Map()
}

// keep remembers an attachment, and drops those that are of no use any more.
func (b *Backend) keep(handle string, a attachment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for h, old := range b.attachments {
		if a.at.Sub(old.at) > repeatedWithin {
			delete(b.attachments, h)
		}
	}
	b.attachments[handle] = a
}

func (b *Backend) forget(handle string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.attachments, handle)
}

// give gives a volume to a node, and says on the LUN what becomes of it there.
func (b *Backend) give(ctx context.Context, t turn, s storage, now sharedlun.Volume, a frame.Attachment) (sharedlun.Volume, error) {
	hadIt := now.HeldBy == a.Node && !now.Leaving
	v, err := t.Hold(ctx, now.Name, a.Node)
	if err != nil {
		return v, err
	}
	if err := b.show(ctx, t, s, v); err != nil {
		return v, err
	}
	if err := t.firstUse(ctx, v, a.Access.Block, hadIt); err != nil {
		return v, err
	}
	return t.same(v)
}

// settle has what is new at the end of a volume zeroed on the node that holds it, and then the volume mapped there: no device shows anything of which it is
// not known what it is.
// It returns the volume as it is then, and the sequence number that this was decided on.
func (b *Backend) settle(ctx context.Context, s storage, v sharedlun.Volume, sequence uint64) (sharedlun.Volume, uint64, error) {
	for v.Unready() {
		if err := b.wait(ctx, s, v); err != nil {
			return v, sequence, err
		}
		err := b.turn(ctx, s, func(ctx context.Context, t turn) error {
			now, err := t.same(v)
			switch {
			case err != nil:
				return err
			case now.HeldBy != v.HeldBy || now.Leaving:
				return taken(v)
			case now.Unready():
				if err := t.confirm(ctx, now); err != nil {
					return err
				}
				// It may have grown once more: then the zeroing begins anew.
				if _, err := b.readied(ctx, t, s, now, t.ready); err != nil {
					return err
				}
			}
			v, err = t.same(v)
			sequence = t.Group.Sequence
			return err
		})
		if err != nil {
			return v, sequence, err
		}
	}
	return v, sequence, b.mapped(ctx, s, v, sequence)
}

// Detach takes a volume from a node, or from whichever has it. A node that does not answer has to be fenced first: that is waited for a while. Kubernetes would try again after a pause that grows
// with every error.
func (b *Backend) Detach(ctx context.Context, handle, node string) error {
	b.forget(handle)
	s, name, err := b.find(ctx, handle)
	if err != nil {
		return err
	}
	holder := ""
	take := func() error {
		return b.turn(ctx, s, func(ctx context.Context, t turn) error {
			v := t.volume(name)
			if v == nil || !attached(*v) || node != "" && v.HeldBy != node {
				return nil
			}
			holder = v.HeldBy
			return t.TakeAway(ctx, name)
		})
	}
	if err = take(); err != nil && holder != "" && b.fenced(ctx, s, holder) {
		err = take()
	}
	return err
}

// fenceLooks is how often a call looks whether a node is fenced: every other Pause.
const fenceLooks = 20

// fenced waits until a node that did not answer is fenced, or answers, and reports whether it is worth to take the volume once more: for a while, as long as the call has the time for that, and few
// other calls wait. A node that nobody vouches for keeps none of the others from being attended to. One that answers at the first look said itself why it keeps the volume.
func (b *Backend) fenced(ctx context.Context, s storage, node string) bool {
	deadline, limited := ctx.Deadline()
	if !limited {
		return false
	}
	select {
	case b.waiting <- struct{}{}:
		defer func() { <-b.waiting }()
	default:
		return false
	}
	for look := range fenceLooks {
		if time.Until(deadline) < reserve {
			return false
		}
		members, err := b.Fleet.Members(ctx, s.ref)
		if err != nil {
			return false
		}
		i := slices.IndexFunc(members, func(m san.Member) bool { return m.Node == node })
		switch {
		case i < 0 || members[i].Up:
			return look > 0
		case members[i].Fenced:
			// At the first look: it was fenced while the volume could not be taken.
			return true
		}
		select {
		case <-time.After(2 * b.Pause):
		case <-ctx.Done():
			return false
		}
	}
	return false
}

func absent(handle string) error {
	return volume.Refuse(volume.NotFound, "volume %s does not exist", handle)
}
