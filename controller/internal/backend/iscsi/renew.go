package iscsi

import (
	"context"
	"slices"

	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// renewal tells a node which keys it takes off its paths before it makes sessions anew; nil for a login that leaves them. Only one node does that at a time, and
// nobody fences it meanwhile.
func (b *Backend) renewal(ctx context.Context, s iscsi.Step) (r *sharedlun.Renewal, unlock func(), err error) {
	if !s.Renew {
		return nil, func() {}, nil
	}
	unlockKey, err := b.lockKey(s, s.Node)
	if err != nil {
		return nil, nil, err
	}
	unlockOwn, err := b.takeOwn(s)
	if err != nil {
		unlockKey()
		return nil, nil, err
	}
	unlock = func() {
		unlockOwn()
		unlockKey()
	}
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	r = &sharedlun.Renewal{}
	if on := m.Spec.Reservation; on != nil && !on.Unfenced {
		if r.Keys, err = sharedlun.ParseKeys(append(slices.Clone(on.Previous), on.Key)...); err != nil {
			unlock()
			return nil, nil, err
		}
	}
	return r, unlock, nil
}

// kept reports whether an error of a renewal leaves a session with the credentials that it has, for good: the node has stored the new ones, and the next session uses
// them. A node that alone has a key keeps its sessions, and one of several waits until another one has its key again.
func (b *Backend) kept(ctx context.Context, s iscsi.Step, err error) bool {
	reason := faultOf(err).Reason
	if !s.Renew || reason != sharedlun.ReasonLastKey {
		return s.Renew && reason == sharedlun.ReasonSessionInUse
	}
	all, err := b.members(ctx, s)
	return err == nil && !slices.ContainsFunc(all, func(m v1alpha1.Member) bool {
		r := m.Spec.Reservation
		return r != nil && !r.Fenced && m.Name != s.Member
	})
}
