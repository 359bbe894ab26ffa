package lun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Unregister takes this node's key off every path. It is refused while something is built on the LUN here, and with sharedlun.ErrLast when no other node is
// registered, unless last says that nobody has to be kept from writing any more.
func (n *Node) Unregister(ctx context.Context, id sharedlun.Identity, key uint64, last bool) (sharedlun.Reservation, error) {
	if key == 0 {
		return sharedlun.Reservation{}, fmt.Errorf("%w: key 0", sharedlun.ErrInvalid)
	}
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		if err := n.bare(l); err != nil {
			return sharedlun.Reservation{}, err
		}
		r, err := n.read(ctx, l)
		if err != nil {
			return r, err
		}
		if err := n.leave(ctx, l, r, key, last); err != nil {
			return r, err
		}
		if err := n.sweep(ctx, l, r, key); err != nil {
			return r, sharedlun.AfterChange(err)
		}
		if err := n.unregister(ctx, l, key); err != nil {
			return r, sharedlun.AfterChange(err)
		}
		if r, err = n.read(ctx, l); err != nil {
			return r, n.unknown(err)
		}
		return r, sharedlun.AfterChange(n.left(r, id, key))
	})
}

// leave makes sure that the others hold the reservation once this key is gone.
func (n *Node) leave(ctx context.Context, l found, r sharedlun.Reservation, key uint64, last bool) error {
	if !r.Supported {
		return n.unread(sharedlun.ErrNoReservations)
	}
	others := slices.ContainsFunc(r.Keys, func(k uint64) bool { return k != key })
	switch {
	case !r.Has(key) || !others && last:
		return nil
	case !others:
		return fmt.Errorf("node %s, LUN %s: %w: everybody could write then, also a node that was fenced and runs on", n.cfg.NodeName, l.WWID, sharedlun.ErrLast)
	case r.Type == 0:
		if err := n.cfg.Reservations.Reserve(ctx, l.up[0], key); err != nil && !errors.Is(err, reservation.ErrConflict) {
			return sharedlun.AfterChange(n.unknown(err))
		}
	case alone(r, key):
		return sharedlun.AfterChange(n.convert(ctx, l, key))
	}
	return nil
}

func (n *Node) unregister(ctx context.Context, l found, key uint64) error {
	for _, path := range l.up {
		if err := n.cfg.Reservations.Unregister(ctx, path, key); err != nil {
			return n.unknown(err)
		}
	}
	return nil
}

// sweep takes a key off where no path of this node leads any more: a registration outlives its session, and the next session is another one to the target. The key preempts itself
// through a path that has it, and stays there. Without such a path nothing is done: a key is never registered for it, since that command could come after a fence.
func (n *Node) sweep(ctx context.Context, l found, r sharedlun.Reservation, key uint64) error {
	own := ""
	for _, path := range l.up {
		has, err := n.registered(ctx, path, r, key)
		switch {
		case err != nil:
			return err
		case has && own == "":
			own = path
		case has:
			if err := n.cfg.Reservations.Unregister(ctx, path, key); err != nil {
				return n.unknown(err)
			}
		}
	}
	if own == "" {
		return nil
	}
	count, err := n.cfg.Reservations.Registrations(ctx, own, key)
	if err != nil || count < 2 {
		return n.unread(err)
	}
	// A conflict means that the key was taken off meanwhile.
	if err := n.cfg.Reservations.Convert(ctx, own, key); err != nil && !errors.Is(err, reservation.ErrConflict) {
		return n.unknown(err)
	}
	return nil
}

// left refuses to call a key taken off that is registered still, or whose end left the others without a reservation.
func (n *Node) left(r sharedlun.Reservation, id sharedlun.Identity, key uint64) error {
	if r.Has(key) {
		return fmt.Errorf("%w: %w", sharedlun.ErrUnknown, sharedlun.NewProblem(sharedlun.ReasonKeyStays,
			"node %s, LUN %s: key %s is registered still, by a path that is down, or by a session that is gone", n.cfg.NodeName, id.WWID, sharedlun.FormatKey(key)))
	}
	if len(r.Keys) > 0 && r.Type == 0 {
		return fmt.Errorf("LUN %s, after node %s left it: %w", id.WWID, n.cfg.NodeName, r.Guarded())
	}
	return nil
}
