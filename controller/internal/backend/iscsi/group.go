package iscsi

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// createGroup makes the group. That it is begun is on record first: what a call that is cut off leaves on the LUN is ours then.
func (b *Backend) createGroup(ctx context.Context, s iscsi.Step) error {
	name := sharedlun.GroupName(s.Ref.OwnerUID)
	err := b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if m.Spec.Group == nil {
			m.Spec.Group = &v1alpha1.MemberGroup{Name: name}
		}
	})
	if err != nil {
		return err
	}
	_, err = b.Groups.MakeGroup(ctx, s.Ref, name, s.Wipe)
	return err
}

// removeGroup removes the group of an Iscsi that is being deleted, and records that it is gone: nobody can read that any more once the last node is
// logged out.
func (b *Backend) removeGroup(ctx context.Context, s iscsi.Step) error {
	i, err := b.iscsi(ctx, s)
	if err != nil {
		return err
	}
	if i.DeletionTimestamp.IsZero() {
		return passing("iscsi %s is not being deleted", i.Name)
	}
	if err := b.Groups.RemoveGroup(ctx, s.Ref); err != nil {
		return err
	}
	_, err = kube.Patch(ctx, b.Client, i, func(i *v1alpha1.Iscsi) {
		if i.Annotations == nil {
			i.Annotations = map[string]string{}
		}
		i.Annotations[v1alpha1.AnnotationGroupRemoved] = s.Ref.UUID
	})
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: san.LeasePrefix + s.Ref.OwnerUID}}
	if err := b.Client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return nil
}

// fenceNode takes the keys of a node off through another one, reads the keys back, and records that the node is fenced. Everything that it was decided
// on is asked once more, of the API server itself.
func (b *Backend) fenceNode(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.lockKey(s, s.Victim)
	if err != nil {
		return err
	}
	defer unlock()
	if n := b.Agents.Node(s.Victim); n.Up() || n.Agent == decide.AgentConnecting {
		return passing("the agent of node %s answers again", s.Victim)
	}
	if !s.Vouched {
		off, err := b.outOfService(ctx, s.Victim)
		if err != nil {
			return err
		}
		if !off {
			return passing("node %s is not tainted with %s any more", s.Victim, v1alpha1.TaintOutOfService)
		}
	}
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	r := m.Spec.Reservation
	if r == nil || r.Key != s.Key {
		return passing("node %s has another key by now", s.Victim)
	}
	if !r.Unfenced {
		keys, err := sharedlun.ParseKeys(append(slices.Clone(r.Previous), r.Key)...)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := b.preempt(ctx, s, key); err != nil {
				return err
			}
		}
	}
	return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if m.Spec.Reservation != nil && m.Spec.Reservation.Key == s.Key {
			m.Spec.Reservation.Fenced = true
		}
	})
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
		return passing("nobody has reserved the LUN: node %s is fenced after that", s.Victim)
	}
	seen, err := b.Agents.Preempt(ctx, s.Runs, s.Ref.Lun, own, victim)
	if err != nil {
		return err
	}
	if seen.Has(victim) {
		return refused(v1alpha1.ReasonStepFailed, "the key of node %s was preempted, and the LUN still has it", s.Victim)
	}
	if err := seen.Writable(own); err != nil {
		return refused(v1alpha1.ReasonStepFailed, "the key of node %s was preempted, and the LUN does not keep others from writing: %w", s.Victim, err)
	}
	return nil
}

// keyOn returns the key of the node that a step of the whole runs on.
func (b *Backend) keyOn(ctx context.Context, s iscsi.Step) (uint64, error) {
	var list v1alpha1.MemberList
	if err := b.Live.List(ctx, &list); err != nil {
		return 0, fmt.Errorf("list members: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if string(m.Spec.Of.UID) == s.Ref.OwnerUID && string(m.Spec.Node) == s.Runs && m.Spec.Reservation != nil && !m.Spec.Reservation.Fenced {
			return sharedlun.ParseKey(m.Spec.Reservation.Key)
		}
	}
	return 0, passing("node %s has no key any more", s.Runs)
}
