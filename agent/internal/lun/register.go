package lun

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Register registers this node's key on every path that is up, in place of the old ones, and reserves the LUN if nobody has and the grant says so. It refuses a
// node that the target cannot tell from another (sharedlun.ErrInitiator), and one on which the LUN is in use while its key is not registered (ErrInUse): it
// was fenced, and what it has mapped is not its own any more, or somebody else uses the LUN.
func (n *Node) Register(ctx context.Context, id sharedlun.Identity, g sharedlun.Grant) (sharedlun.Reservation, error) {
	if err := g.Check(); err != nil {
		return sharedlun.Reservation{}, err
	}
	if g.BootID != n.cfg.BootID {
		return sharedlun.Reservation{}, fmt.Errorf("%w: the key was granted for boot %s, this is %s", sharedlun.ErrRebooted, g.BootID, n.cfg.BootID)
	}
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		r, err := n.read(ctx, l)
		if err != nil {
			return r, err
		}
		if err := r.Reservable(); err != nil {
			return r, n.unread(err)
		}
		if err := n.named(l, g.Initiator); err != nil {
			return r, err
		}
		proof, err := n.own(ctx, l, r, g)
		if err != nil {
			return r, err
		}
		if err := n.spread(ctx, l, g, proof); err != nil {
			return r, err
		}
		r, err = n.reserve(ctx, l, g)
		return r, sharedlun.AfterChange(err)
	})
}

// spread registers the key on every path. A node that was fenced meanwhile would get it back on a path that never had it: that is taken back.
func (n *Node) spread(ctx context.Context, l found, g sharedlun.Grant, proof string) error {
	changed := false
	for _, path := range l.up {
		if path == proof {
			continue
		}
		err := n.cfg.Reservations.Register(ctx, path, g.Key, g.Old...)
		if errors.Is(err, reservation.ErrConflict) && !changed {
			return fmt.Errorf("%w: %w", sharedlun.ErrNoKey, sharedlun.NewProblem(sharedlun.ReasonOtherKey,
				"The target has another key for path %s of node %s to LUN %s than those on record.", path, n.cfg.NodeName, l.WWID))
		}
		if err != nil {
			return sharedlun.AfterChange(n.unknown(err))
		}
		changed = true
		if proof == "" {
			continue
		}
		if err := n.cfg.Reservations.Confirm(ctx, proof, g.Key); err != nil {
			return sharedlun.AfterChange(errors.Join(n.unknown(err), n.unregister(ctx, l, g.Key)))
		}
	}
	return nil
}

// reserve reserves the LUN for all that are registered, if nobody has and the grant says so.
func (n *Node) reserve(ctx context.Context, l found, g sharedlun.Grant) (sharedlun.Reservation, error) {
	key := g.Key
	r, err := n.read(ctx, l)
	if err != nil {
		return r, n.unknown(err)
	}
	switch {
	case r.Type == 0 && !g.Reserve:
		if !r.Has(key) {
			return r, r.Writable(key)
		}
		return r, nil
	case r.Type == 0:
		// Another node may be quicker.
		err = n.cfg.Reservations.Reserve(ctx, l.up[0], key)
		if errors.Is(err, sharedlun.ErrNoReservations) {
			return r, errors.Join(n.unknown(err), n.unregister(ctx, l, key))
		}
		if err != nil && !errors.Is(err, reservation.ErrConflict) {
			return r, n.unknown(err)
		}
	case alone(r, key) && n.bare(l) == nil:
		if err := n.convert(ctx, l, key); err != nil {
			return r, err
		}
	}
	if r, err = n.read(ctx, l); err != nil {
		return r, n.unknown(err)
	}
	return r, r.Writable(key)
}

// alone reports whether a key alone holds a reservation of an earlier version: it would end when the key is taken off.
func alone(r sharedlun.Reservation, key uint64) bool {
	return r.Type == sharedlun.WriteExclusiveRegistrantsOnly && r.Holder == key
}

// convert lets all that are registered hold a reservation that this key held alone. The target takes the key off all paths but one, so that nothing may be in
// use; they get it again. Killed between the two, the node lacks it on some, which Confirm tells.
func (n *Node) convert(ctx context.Context, l found, key uint64) error {
	if err := n.cfg.Reservations.Convert(ctx, l.up[0], key); err != nil {
		return n.unknown(err)
	}
	for _, path := range l.up {
		if err := n.cfg.Reservations.Register(ctx, path, key); err != nil {
			return n.unknown(err)
		}
	}
	return nil
}
