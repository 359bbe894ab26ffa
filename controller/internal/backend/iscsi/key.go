package iscsi

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// lockKey takes the lock of the calls about a node's key, if nobody has it. A call that has no answer may still be under way: nobody fences the node
// meanwhile.
func (b *Backend) lockKey(s iscsi.Step, node string) (unlock func(), err error) {
	lock := b.memory.keyOf(types.UID(s.Ref.OwnerUID), node)
	if !lock.TryLock() {
		return nil, passing("another call about the key of node %s is under way", node)
	}
	return lock.Unlock, nil
}

// grantKey writes a key for the node's boot onto its Member, with the LUN that it is for. Nothing is registered yet.
func (b *Backend) grantKey(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.lockKey(s, s.Node)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	r := m.Spec.Reservation
	if r != nil && r.BootID == s.BootID {
		// It was granted before; a node that is fenced gets no other one for this boot.
		return nil
	}
	seen, err := b.Agents.Reservation(ctx, s.Node, s.Ref.Lun, false)
	if err != nil {
		return err
	}
	if seen.Supported == s.Unfenced {
		return passing("what the target says of reservations changed")
	}
	taken, _, err := b.keys(ctx, s)
	if err != nil {
		return err
	}
	granted := &v1alpha1.MemberReservation{BootID: s.BootID, Initiator: s.Initiator, Unfenced: s.Unfenced, Previous: registered(r, seen)}
	if granted.Key, err = b.fresh(taken, seen); err != nil {
		return err
	}
	if key, err := parse(granted.Key); err == nil {
		b.memory.grant(types.UID(s.Ref.OwnerUID), key)
	}
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		m.Spec.Reservation = granted
		if m.Spec.Lun == nil {
			m.Spec.Lun = &v1alpha1.MemberLun{WWID: s.Ref.Lun.WWID, Serial: s.Ref.Lun.Serial, IQN: s.Target.IQN}
		}
		m.Spec.Lun.Size = max(m.Spec.Lun.Size, s.Ref.Lun.SizeBytes)
	})
}

// keys returns all keys that Members of the Iscsi have on record, and the names of the initiators of all but the step's own Member.
func (b *Backend) keys(ctx context.Context, s iscsi.Step) (out map[string]bool, names []string, err error) {
	var list v1alpha1.MemberList
	if err := b.Live.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list members: %w", err)
	}
	out = map[string]bool{}
	for i := range list.Items {
		m := &list.Items[i]
		if r := m.Spec.Reservation; r != nil && string(m.Spec.Of.UID) == s.Ref.OwnerUID {
			out[r.Key], out[r.Previous] = true, true
			if r.Initiator != "" && m.Name != s.Member {
				names = append(names, r.Initiator)
			}
			if !r.Unfenced && s.Unfenced {
				return nil, nil, refused(v1alpha1.ReasonReservationsGone, "member %s has a key, and the target says now that it keeps no reservations", m.Name)
			}
		}
	}
	return out, names, nil
}

// fresh returns a key that nobody has.
func (b *Backend) fresh(taken map[string]bool, seen sharedlun.Reservation) (string, error) {
	for range 100 {
		key := b.Random()
		if text := fmt.Sprintf("%016x", key); key != 0 && !taken[text] && !seen.Has(key) {
			return text, nil
		}
	}
	return "", fmt.Errorf("no free key was found in 100 random ones")
}

// registered returns the one of a node's keys on record that the LUN has; empty when it has none.
func registered(r *v1alpha1.MemberReservation, seen sharedlun.Reservation) string {
	if r == nil {
		return ""
	}
	for _, text := range []string{r.Key, r.Previous} {
		if key, err := parse(text); err == nil && key != 0 && seen.Has(key) {
			return text
		}
	}
	return ""
}

// registerKey has the node register the key that is on record for its boot.
func (b *Backend) registerKey(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.lockKey(s, s.Node)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	r := m.Spec.Reservation
	if r == nil || r.BootID != s.BootID || r.Fenced || r.Unfenced {
		return passing("member %s has no key for this boot that may be registered", s.Member)
	}
	key, err := parse(r.Key)
	if err != nil {
		return err
	}
	old, err := parse(r.Previous)
	if err != nil {
		return err
	}
	_, others, err := b.keys(ctx, s)
	if err != nil {
		return err
	}
	// An earlier request had no answer: that of another one does not say that it will not reach the target any more.
	open := r.Registering
	if err := b.registering(ctx, s, r.Key, true); err != nil {
		return err
	}
	seen, err := b.Agents.Register(ctx, s.Node, s.Ref.Lun, sharedlun.Grant{Key: key, Old: old, BootID: r.BootID, Initiator: r.Initiator, Others: others})
	if !open && san.Answered(err) {
		err = errors.Join(err, b.registering(ctx, s, r.Key, false))
	}
	if err != nil {
		return err
	}
	if err := seen.Writable(key); err != nil {
		return refused(v1alpha1.ReasonKeyLost, "the key of node %s was registered, and does not count: %w", s.Node, err)
	}
	b.memory.note(types.UID(s.Ref.OwnerUID), s.Node, func(h *host) { h.paths = s.Paths })
	if r.Previous == "" {
		return nil
	}
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if m.Spec.Reservation != nil && m.Spec.Reservation.Key == r.Key {
			m.Spec.Reservation.Previous = ""
		}
	})
}

// registering records whether a request to register a key may be under way.
func (b *Backend) registering(ctx context.Context, s iscsi.Step, key string, is bool) error {
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if m.Spec.Reservation != nil && m.Spec.Reservation.Key == key {
			m.Spec.Reservation.Registering = is
		}
	})
}

// unregisterKey takes the node's key off, and then off the record.
func (b *Backend) unregisterKey(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.lockKey(s, s.Node)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	if r := m.Spec.Reservation; r != nil && !s.Unfenced {
		for _, text := range []string{r.Previous, r.Key} {
			key, err := parse(text)
			if err != nil {
				return err
			}
			if key == 0 {
				continue
			}
			if _, err := b.Agents.Unregister(ctx, s.Node, s.Ref.Lun, key, s.Last); err != nil {
				return err
			}
		}
	}
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		m.Spec.Reservation = nil
		if m.Spec.Group == nil || m.Spec.Group.UUID == "" {
			// Nothing was ever made on the LUN: it is forgotten with the last member. A record with a group goes with its Member.
			m.Spec.Lun = nil
		}
	})
}

// parse reads a key as a Member has it; 0 for an empty one.
func parse(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	key, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("reservation key %.40q on record cannot be read", text)
	}
	return key, nil
}
