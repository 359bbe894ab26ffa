package iscsi

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/iscsi/recorded"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/san/fleet"
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

// takeOwn lets one node of an Iscsi take its own key off, for good or while it makes its sessions anew. Of two, each would find the other's key, and both would go:
// the reservation ends with the last one.
func (b *Backend) takeOwn(s iscsi.Step) (unlock func(), err error) {
	lock := b.memory.ownOf(types.UID(s.Ref.OwnerUID))
	if !lock.TryLock() {
		return nil, passing("another node takes its key off the LUN, or makes its sessions anew")
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
	if r != nil && r.BootID == s.BootID && (!s.Exchange || !r.Unfenced || r.Fenced) {
		// It was granted before; a node that is fenced gets no other one for this boot.
		return nil
	}
	machine, err := b.machineOf(ctx, s, r)
	if err != nil {
		return err
	}
	seen, err := b.reservation(ctx, s)
	if err != nil {
		return err
	}
	taken, _, err := b.keys(ctx, s)
	if err != nil {
		return err
	}
	if err := b.idle(ctx, s); err != nil {
		return err
	}
	granted := &v1alpha1.MemberReservation{BootID: s.BootID, Machine: machine, Initiator: s.Initiator, Unfenced: s.RecordOnly, Previous: registered(r, seen)}
	key, err := b.fresh(taken, seen)
	if err != nil {
		return err
	}
	granted.Key = sharedlun.FormatKey(key)
	if r != nil {
		granted.Machines = recorded.Machines(r, granted.Previous)
	}
	b.memory.grant(types.UID(s.Ref.OwnerUID), key)
	return b.memberAs(ctx, s, r, func(m *v1alpha1.Member) {
		m.Spec.Reservation = granted
		if m.Spec.Lun == nil {
			m.Spec.Lun = &v1alpha1.MemberLun{WWID: s.Ref.Lun.WWID, Serial: s.Ref.Lun.Serial, IQN: s.Target.IQN}
		}
		m.Spec.Lun.Size = max(m.Spec.Lun.Size, s.Ref.Lun.SizeBytes)
	})
}

// machineOf returns the machine that a key is granted to, and refuses one that may be another than before, unless a person vouched for that.
func (b *Backend) machineOf(ctx context.Context, s iscsi.Step, r *v1alpha1.MemberReservation) (string, error) {
	machine, _, err := kube.Machine(ctx, b.Live, s.Node, s.BootID)
	if err != nil || r == nil {
		return machine, err
	}
	if machine == "" && r.BootID == s.BootID {
		// A boot is one of one machine.
		return r.Machine, nil
	}
	if s.Vouched {
		return machine, nil
	}
	why, err := writer.Stranger(writer.GrantedTo(r), s.Node, s.BootID, machine, func() (decide.Everyone, error) { return fleet.Machines(ctx, b.Live) })
	switch {
	case err != nil:
		return "", err
	case why != "":
		return "", passing("node %s gets no key: %s", s.Node, why)
	}
	return machine, nil
}

// recordMachine puts the machine on record that has the key of this boot.
func (b *Backend) recordMachine(ctx context.Context, s iscsi.Step) error {
	machine, _, err := kube.Machine(ctx, b.Live, s.Node, s.BootID)
	if err != nil {
		return err
	}
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if r := m.Spec.Reservation; r != nil && r.Key == s.Key && r.BootID == s.BootID && r.Machine == "" {
			r.Machine = machine
		}
	})
}

// reservation reads the keys of a LUN for which a key is granted, and refuses one that has no reservations any more.
func (b *Backend) reservation(ctx context.Context, s iscsi.Step) (sharedlun.Reservation, error) {
	seen, err := b.Agents.Reservation(ctx, s.Node, s.Ref.Lun, false)
	if err == nil && !seen.Supported && !s.RecordOnly {
		err = passing("what the target says of reservations changed")
	}
	return seen, err
}

// idle refuses to begin with keys where nodes were let in without, while somebody changes the group: a node that was let in without one could not end its change. A process that takes the turn later
// knows of the key.
func (b *Backend) idle(ctx context.Context, s iscsi.Step) error {
	if !s.Exchange {
		return nil
	}
	record, _, err := b.Records.Load(ctx, s.Ref.OwnerUID)
	if err == nil && (record.Taken != "" || len(record.Pending) > 0) {
		return passing("the volume group is being changed: the nodes get keys after that")
	}
	return err
}

// keys returns all keys that Members of the Iscsi have on record, and the names of the initiators of all but the step's own Member.
func (b *Backend) keys(ctx context.Context, s iscsi.Step) (out map[string]bool, names []string, err error) {
	all, err := b.members(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	out = map[string]bool{}
	for i := range all {
		m := &all[i]
		if r := m.Spec.Reservation; r != nil {
			for _, key := range append(r.Previous, r.Key) {
				out[key] = true
			}
			if r.Initiator != "" && m.Name != s.Member {
				names = append(names, r.Initiator)
			}
			if !r.Unfenced && s.RecordOnly {
				return nil, nil, refused(v1alpha1.ReasonReservationsGone, "member %s has a key, and node %s is to be let in without", m.Name, s.Node)
			}
		}
	}
	return out, names, nil
}

// fresh returns a key that nobody has.
func (b *Backend) fresh(taken map[string]bool, seen sharedlun.Reservation) (uint64, error) {
	for range 100 {
		if key := b.Random(); key != 0 && !taken[sharedlun.FormatKey(key)] && !seen.Has(key) {
			return key, nil
		}
	}
	return 0, fmt.Errorf("no free key was found in 100 random ones")
}

// registered returns those of a node's keys on record that the LUN has.
func registered(r *v1alpha1.MemberReservation, seen sharedlun.Reservation) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, text := range append(slices.Clone(r.Previous), r.Key) {
		if key, err := sharedlun.ParseKey(text); err == nil && seen.Has(key) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// unregisterKey takes the node's key off, and then off the record.
func (b *Backend) unregisterKey(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.lockKey(s, s.Node)
	if err != nil {
		return err
	}
	defer unlock()
	if !s.Last {
		give, err := b.takeOwn(s)
		if err != nil {
			return err
		}
		defer give()
	}
	record, _, err := b.Records.Load(ctx, s.Ref.OwnerUID)
	switch {
	case err != nil:
		return err
	case !s.Last && record.Names(s.Node):
		// It may have begun since the step was decided on.
		return passing("the node may still make a change of the volume group: its key is taken off after that")
	}
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	if r := m.Spec.Reservation; r != nil && s.RecordOnly && r.Key != s.Key {
		return passing("node %s was granted a key since: it is taken off first", s.Node)
	}
	if err := b.unregisterAll(ctx, s, m.Spec.Reservation); err != nil {
		return err
	}
	return b.memberAs(ctx, s, m.Spec.Reservation, func(m *v1alpha1.Member) {
		m.Spec.Reservation = nil
		if m.Spec.Group == nil || m.Spec.Group.UUID == "" {
			// Nothing was ever made on the LUN: it is forgotten with the last member. A record with a group goes with its Member.
			m.Spec.Lun = nil
		}
	})
}

// unregisterAll has the node take off each of its keys on record.
func (b *Backend) unregisterAll(ctx context.Context, s iscsi.Step, r *v1alpha1.MemberReservation) error {
	if r == nil || s.RecordOnly {
		return nil
	}
	keys, err := sharedlun.ParseKeys(append(slices.Clone(r.Previous), r.Key)...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		_, err := b.Agents.Unregister(ctx, s.Node, s.Ref.Lun, key, s.Last)
		if faultOf(err).Reason == sharedlun.ReasonKeyStays && sharedlun.FormatKey(key) == r.Key {
			err = b.unregisterLeft(ctx, s, r, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unregisterLeft takes a key off that no path of its node has any more: another node preempts it. The last one registers it once more, so that a path has it that can. The node has
// just said that nothing is mapped there. A key of an earlier boot may be that of another machine of the name: of it a person vouches.
func (b *Backend) unregisterLeft(ctx context.Context, s iscsi.Step, r *v1alpha1.MemberReservation, key uint64) error {
	if n := b.Agents.Node(s.Node); !n.Up() || n.BootID != r.BootID || n.BootID != s.BootID {
		return refused(sharedlun.ReasonKeyStays, "key %s of an earlier boot of node %s is on the LUN, and no path of the node has it: it is taken off by approval", r.Key, s.Node)
	}
	if s.Runs != "" {
		return b.preempt(ctx, s, key)
	}
	if err := b.registerGranted(ctx, s); err != nil {
		return err
	}
	_, err := b.Agents.Unregister(ctx, s.Node, s.Ref.Lun, key, s.Last)
	return err
}
