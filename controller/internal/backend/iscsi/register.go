package iscsi

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/iscsi/recorded"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	// hearPatience bounds the writing of an answer.
	hearPatience = 10 * time.Second
	// maxPaths is how many characters of paths a Member keeps; with more, the key is registered again after each start of the controller.
	maxPaths = 4096
)

// registerKey has the node register the key that is on record for its boot.
func (b *Backend) registerKey(ctx context.Context, s iscsi.Step) error {
	unlock, err := b.lockKey(s, s.Node)
	if err != nil {
		return err
	}
	defer unlock()
	return b.registerGranted(ctx, s)
}

// registerGranted registers the key. The caller has the lock of the node's key.
func (b *Backend) registerGranted(ctx context.Context, s iscsi.Step) error {
	r, g, err := b.granted(ctx, s)
	if err != nil {
		return err
	}
	request, err := b.request(ctx, s, r.Key)
	if err != nil {
		return err
	}
	seen, err := b.register(ctx, s, g)
	b.noteOtherKey(s, err)
	counts := err == nil && accepted(seen, g) == nil
	if counts {
		b.memory.note(types.UID(s.Ref.OwnerUID), s.Node, func(h *host) { h.paths = s.Paths })
	}
	err = errors.Join(err, b.heard(ctx, s, r.Key, func(r *v1alpha1.MemberReservation) {
		if r.Registering == request.id && !request.after && san.Answered(err) {
			r.Registering = ""
		}
		if !counts {
			return
		}
		r.Previous = registered(&v1alpha1.MemberReservation{Previous: r.Previous}, seen)
		r.Machines = recorded.Machines(r, r.Previous)
		if len(s.Paths) <= maxPaths {
			r.Paths = s.Paths
		}
	}))
	if err != nil {
		return err
	}
	if err := accepted(seen, g); err != nil {
		return refused(uncounted(seen, g), "the key of node %s was registered, and does not count: %w", s.Node, err)
	}
	return nil
}

// uncounted is the reason for a key that was registered and does not count.
func uncounted(seen sharedlun.Reservation, g sharedlun.Grant) string {
	if seen.Has(g.Key) {
		return v1alpha1.ReasonNotReserved
	}
	return v1alpha1.ReasonStepFailed
}

// noteOtherKey remembers whether the target has another key for a node than those that it was told of, as far as its answer tells.
func (b *Backend) noteOtherKey(s iscsi.Step, err error) {
	b.memory.note(types.UID(s.Ref.OwnerUID), s.Node, func(h *host) {
		switch {
		case err == nil:
			h.otherKey = ""
		case faultOf(err).Reason == sharedlun.ReasonOtherKey:
			h.otherKey = s.BootID
		}
	})
}

// accepted refuses what a node read after it had registered a key, unless the key is there, and the LUN reserved if it was to be.
func accepted(seen sharedlun.Reservation, g sharedlun.Grant) error {
	err := seen.Writable(g.Key)
	if err != nil && seen.Has(g.Key) && !g.Reserve {
		return nil
	}
	return err
}

// granted returns what is on record of the node's key, and what its agent is told.
func (b *Backend) granted(ctx context.Context, s iscsi.Step) (r *v1alpha1.MemberReservation, g sharedlun.Grant, err error) {
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return nil, g, err
	}
	r = m.Spec.Reservation
	if r == nil || r.BootID != s.BootID || r.Fenced || r.Unfenced {
		return nil, g, passing("member %s has no key for this boot that may be registered", s.Member)
	}
	g = sharedlun.Grant{BootID: r.BootID, Initiator: r.Initiator, Reserve: s.Reserve}
	if g.Key, err = sharedlun.ParseKey(r.Key); err != nil {
		return nil, g, err
	}
	if g.Old, err = sharedlun.ParseKeys(r.Previous...); err != nil {
		return nil, g, err
	}
	if err := b.nobodys(ctx, s); err != nil {
		return nil, g, err
	}
	replaced, err := sharedlun.ParseKeys(s.Keys...)
	if err != nil {
		return nil, g, err
	}
	g.Old = append(g.Old, replaced...)
	_, g.Others, err = b.keys(ctx, s)
	return r, g, err
}

// register sends the request. Which volumes are the node's own is read after the request is on record: from then on no fence of the node counts, so that nobody takes
// them away.
func (b *Backend) register(ctx context.Context, s iscsi.Step, g sharedlun.Grant) (sharedlun.Reservation, error) {
	if s.Own {
		c, err := b.Agents.Contents(ctx, s.Node, s.Ref)
		if err != nil {
			return sharedlun.Reservation{}, &san.Refusal{Err: err}
		}
		for _, v := range volumesOf(c.Group, s.Ref.UUID) {
			if v.HeldBy == s.Node {
				g.Own = append(g.Own, v.UUID)
			}
		}
	}
	for old := g.Old; ; old = old[sharedlun.MaxOldKeys:] {
		g.Old = old[:min(len(old), sharedlun.MaxOldKeys)]
		seen, err := b.Agents.Register(ctx, s.Node, s.Ref.Lun, g)
		if len(old) <= sharedlun.MaxOldKeys || faultOf(err).Reason != sharedlun.ReasonOtherKey {
			return seen, err
		}
	}
}

// volumesOf are the volumes of the group, if it is the one on record.
func volumesOf(g *sharedlun.Group, uuid string) []sharedlun.Volume {
	if g == nil || g.UUID != uuid {
		return nil
	}
	return g.Volumes
}

// request is one request to register a key.
type request struct {
	// id names it on the Member while it may be under way, and no other one.
	id string
	// after is true when another one may be under way as well: its answer alone does not say that the other one will not reach the target any more.
	after bool
}

// request records that a request to register a key may be under way. Whoever began one before, in this process or in one that was the leader, takes off only its own.
func (b *Backend) request(ctx context.Context, s iscsi.Step, key string) (request, error) {
	out, marked := request{id: sharedlun.FormatKey(b.Random())}, false
	err := b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if r := m.Spec.Reservation; r != nil && r.Key == key && !r.Fenced {
			out.after, marked = r.Registering != "", true
			r.Registering = out.id
		}
	})
	if err == nil && !marked {
		err = passing("the key of node %s on record was changed meanwhile: none is registered", s.Node)
	}
	return out, err
}

// heard records what came of a request to register a key. The answer is not told again: it is written even if the step was called off meanwhile, and even if somebody
// writes to the Member at the same time.
func (b *Backend) heard(ctx context.Context, s iscsi.Step, key string, change func(*v1alpha1.MemberReservation)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hearPatience)
	defer cancel()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
			if m.Spec.Reservation != nil && m.Spec.Reservation.Key == key {
				change(m.Spec.Reservation)
			}
		})
	})
}
