package iscsi

import (
	"context"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/iscsi/recorded"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/san/fleet"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// fenceNode takes the keys of a node off through another one, reads the keys back, and records that the node is fenced. Everything that it was decided
// on is asked once more, of the API server itself.
func (b *Backend) fenceNode(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.lockKey(s, s.Victim)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	r := m.Spec.Reservation
	if r == nil && s.Key == "" && s.Vouched {
		return b.fenceKeyless(ctx, s)
	}
	if r == nil || r.Key != s.Key {
		return passing("node %s has another key by now", s.Victim)
	}
	if err := b.fenceable(ctx, s, r); err != nil {
		return err
	}
	if !r.Unfenced {
		if err := b.preemptAll(ctx, s, r); err != nil {
			return err
		}
	}
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if r := m.Spec.Reservation; r != nil && r.Key == s.Key {
			r.Fenced = true
			// In a node that is off no command waits any more.
			if s.Vouched {
				r.Registering = ""
			}
		}
	})
}

// fenceable refuses to fence a node that may work with its key. What is fenced already may be fenced again, whoever answers.
func (b *Backend) fenceable(ctx context.Context, s iscsi.Step, r *v1alpha1.MemberReservation) error {
	if !r.Fenced || r.Registering != "" {
		if err := b.off(ctx, s, r); err != nil {
			return err
		}
	}
	if !s.GroupGone {
		return nil
	}
	return b.groupGone(ctx, s)
}

// off refuses to fence a node that answers, or of which nobody says any more that it is off. A request to register that had no answer needs a person who vouches
// for it.
func (b *Backend) off(ctx context.Context, s iscsi.Step, r *v1alpha1.MemberReservation) error {
	if n := b.Agents.Node(s.Victim); n.Up() || n.Agent == decide.AgentConnecting {
		return passing("the agent of node %s answers again", s.Victim)
	}
	if s.GroupGone {
		return nil
	}
	if !s.Vouched && r.Registering != "" {
		return passing("node %s was asked to register its key and did not answer", s.Victim)
	}
	off, known, err := b.standing(ctx, s.Victim)
	if err == nil && !off && (known || !s.Vouched) {
		err = passing("node %s is not tainted with %s any more", s.Victim, v1alpha1.TaintOutOfService)
	}
	return err
}

// groupGone refuses to take the key of a node off that nobody says is off, unless the group was removed with the Iscsi, by what the API server itself says.
func (b *Backend) groupGone(ctx context.Context, s iscsi.Step) error {
	i, err := b.iscsi(ctx, s)
	if err != nil {
		return err
	}
	if i.DeletionTimestamp.IsZero() || s.Ref.UUID == "" || i.Annotations[v1alpha1.AnnotationGroupRemoved] != s.Ref.UUID {
		return passing("the volume group of iscsi %s is not removed", i.Name)
	}
	return nil
}

// fenceKeyless records that a node is fenced of which no key is on record, with a key that was never registered: a person vouches that it is off. Whether that counts is
// judged by the keys on the LUN, as for every fence: as long as one is there that no Member has, which may be the node's, it does not.
func (b *Backend) fenceKeyless(ctx context.Context, s iscsi.Step) error {
	if err := b.off(ctx, s, nil); err != nil {
		return err
	}
	seen, err := b.Agents.Reservation(ctx, s.Runs, s.Ref.Lun, !s.RecordOnly)
	if err != nil {
		return err
	}
	taken, _, err := b.keys(ctx, s)
	if err != nil {
		return err
	}
	key, err := b.fresh(taken, seen)
	if err != nil {
		return err
	}
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if m.Spec.Reservation == nil {
			m.Spec.Reservation = &v1alpha1.MemberReservation{Key: sharedlun.FormatKey(key), BootID: sharedlun.UnknownBoot, Fenced: true, Unfenced: s.RecordOnly}
		}
	})
}

// preemptAll takes all keys of a node off, those of earlier boots first.
func (b *Backend) preemptAll(ctx context.Context, s iscsi.Step, r *v1alpha1.MemberReservation) error {
	keys, err := sharedlun.ParseKeys(append(slices.Clone(r.Previous), r.Key)...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := b.preempt(ctx, s, key); err != nil {
			return err
		}
	}
	return nil
}

// preempt takes one key off, and believes it only once the LUN says that it is gone, and that others are kept from writing.
func (b *Backend) preempt(ctx context.Context, s iscsi.Step, victim uint64) error {
	own, err := b.keyOn(ctx, s)
	if err != nil {
		return err
	}
	now, err := b.Agents.Reservation(ctx, s.Runs, s.Ref.Lun, true)
	if err != nil {
		return err
	}
	if !now.Held() {
		// The agent would reserve it, and shut out whoever works without a key until then.
		return passing("nobody has reserved the LUN: key %s is preempted, and its node fenced after that", sharedlun.FormatKey(victim))
	}
	seen, err := b.Agents.Preempt(ctx, s.Runs, s.Ref.Lun, own, victim)
	if err != nil {
		return err
	}
	if seen.Has(victim) {
		return refused(v1alpha1.ReasonStepFailed, "key %s was preempted, and the LUN still has it", sharedlun.FormatKey(victim))
	}
	if err := seen.Writable(own); err != nil {
		return refused(v1alpha1.ReasonStepFailed, "key %s was preempted, and the LUN does not keep others from writing: %w", sharedlun.FormatKey(victim), err)
	}
	return nil
}

// preemptKeys takes keys off that no Member has, not even in the API server itself, or those of earlier boots of one member: those of a plan that a person approved, or that are proven to be of the
// machine that the node is.
func (b *Backend) preemptKeys(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.preemptable(ctx, s)
	if err != nil {
		return err
	}
	defer unlock()
	keys, err := sharedlun.ParseKeys(s.Keys...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := b.preempt(ctx, s, key); err != nil {
			return err
		}
	}
	return nil
}

// preemptable refuses keys of which somebody has one by now. Nobody asks the member to register a key meanwhile, if the keys are of one.
func (b *Backend) preemptable(ctx context.Context, s iscsi.Step) (unlock func(), err error) {
	if s.Member == "" {
		return func() {}, b.nobodys(ctx, s)
	}
	if unlock, err = b.lockKey(s, s.Victim); err != nil {
		return nil, err
	}
	if err = b.outlived(ctx, s); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// nobodys refuses keys that a Member has on record.
func (b *Backend) nobodys(ctx context.Context, s iscsi.Step) error {
	taken, _, err := b.keys(ctx, s)
	if err != nil {
		return err
	}
	for _, text := range s.Keys {
		if taken[text] {
			return passing("key %s is that of a Member by now", text)
		}
	}
	return nil
}

// outlived refuses keys that are not, by its record, of boots of a member before the one that its node reports and a person was told of.
func (b *Backend) outlived(ctx context.Context, s iscsi.Step) error {
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	n, r := b.Agents.Node(s.Victim), m.Spec.Reservation
	if !n.Up() || n.BootID != s.BootID || r == nil {
		return passing("node %s does not answer any more in the boot that it was in, or has no key on record", s.Victim)
	}
	for _, text := range s.Keys {
		if !slices.Contains(r.Previous, text) && (text != r.Key || r.BootID == s.BootID) {
			return passing("key %s is not on record as one of an earlier boot of node %s any more", text, s.Victim)
		}
	}
	if !s.Proven {
		return nil
	}
	return b.proven(ctx, s, m)
}

// proven refuses keys of which the record does not say, or not any more, that they were granted to the machine that its node is in the boot of the step.
func (b *Backend) proven(ctx context.Context, s iscsi.Step, m *v1alpha1.Member) error {
	machine, _, err := kube.Machine(ctx, b.Live, s.Victim, s.BootID)
	if err != nil {
		return err
	}
	all, err := fleet.Machines(ctx, b.Live)
	if err != nil {
		return err
	}
	if _, open := recorded.Ended(m, all, s.Keys, s.BootID, machine); len(open) > 0 {
		return passing("it is not known that these keys were granted to the machine that node %s is, and to no other one: %s", s.Victim, strings.Join(open, ", "))
	}
	return nil
}

// forgetReaders takes a node off the readers of volumes, of which a person vouched that it reads no more. One that answers says that itself: a member in the turn that removes
// the volume, any other node here.
func (b *Backend) forgetReaders(ctx context.Context, s iscsi.Step) error {
	reported := ""
	switch n := b.Agents.Node(s.Victim); {
	case n.Agent == decide.AgentConnecting, n.Up() && n.BootID == "":
		return passing("the connection to the agent of node %s is being made", s.Victim)
	case n.Up() && s.Member != "":
		return passing("the agent of node %s answers again", s.Victim)
	case n.Up():
		reported = n.BootID
	}
	for _, v := range s.Volumes {
		if err := b.Groups.Forget(ctx, s.Ref, v, s.Boots, reported); err != nil {
			return err
		}
	}
	return nil
}

// keyOn returns the key of the node that a step of the whole runs on.
func (b *Backend) keyOn(ctx context.Context, s iscsi.Step) (uint64, error) {
	all, err := b.members(ctx, s)
	if err != nil {
		return 0, err
	}
	var by *v1alpha1.Member
	for i := range all {
		if m := &all[i]; string(m.Spec.Node) == s.Runs {
			by = backend.Owner{Kind: m.Spec.Of.Kind, Name: m.Spec.Of.Name}.Prefer(by, m)
		}
	}
	if by == nil || by.Spec.Reservation == nil || by.Spec.Reservation.Fenced {
		return 0, passing("node %s has no key any more", s.Runs)
	}
	return sharedlun.ParseKey(by.Spec.Reservation.Key)
}
