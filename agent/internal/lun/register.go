package lun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Register registers this node's key on every path that is up, in place of the old one, and reserves the LUN if nobody has. It refuses a node that the target
// cannot tell from another (sharedlun.ErrInitiator), and one on which something is built on the LUN while its key is not registered (ErrInUse): it was
// fenced, and what it has mapped is not its own any more.
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
		proof, err := n.own(ctx, l, r, g.Key)
		if err != nil {
			return r, err
		}
		if err := n.spread(ctx, l, g, proof); err != nil {
			return r, err
		}
		return n.reserve(ctx, l, g.Key)
	})
}

// own refuses a node on which something is built on the LUN, unless its key is registered. It returns a path that has the key then; empty when nothing is
// built, or when only paths have it that are gone.
func (n *Node) own(ctx context.Context, l found, r sharedlun.Reservation, key uint64) (proof string, err error) {
	err = n.bare(l)
	if err == nil || !errors.Is(err, sharedlun.ErrInUse) || !r.Has(key) {
		return "", err
	}
	for _, path := range l.up {
		err := n.cfg.Reservations.Confirm(ctx, path, key)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, reservation.ErrConflict) {
			return "", n.unread(err)
		}
	}
	return "", nil
}

// named refuses paths on which the target knows this node by another name than the recorded one.
func (n *Node) named(l found, name string) error {
	for _, p := range l.Paths {
		switch {
		case p.Initiator == "":
			return fmt.Errorf("node %s, path %s through %s: name of the initiator: %w", n.cfg.NodeName, p.Device, p.Portal, sharedlun.ErrUnread)
		case !sharedlun.SameInitiator(p.Initiator, name):
			return fmt.Errorf("%w: node %s is logged in through %s as %s, on record is %s", sharedlun.ErrInitiator, n.cfg.NodeName, p.Portal, p.Initiator, name)
		}
	}
	return nil
}

// bare refuses a LUN on which something is built here.
func (n *Node) bare(l found) error {
	holders, err := n.cfg.Uses.Holders(l.Lun)
	switch {
	case err != nil:
		return fmt.Errorf("node %s, LUN %s: %w: %w", n.cfg.NodeName, l.WWID, sharedlun.ErrUnread, err)
	case len(holders) > 0:
		return fmt.Errorf("node %s, LUN %s: %w by %s", n.cfg.NodeName, l.WWID, sharedlun.ErrInUse, strings.Join(holders, ", "))
	}
	return nil
}

// spread registers the key on every path. A node that was fenced meanwhile would get it back on a path that never had it: that is taken back.
func (n *Node) spread(ctx context.Context, l found, g sharedlun.Grant, proof string) error {
	for _, path := range l.up {
		if path == proof {
			continue
		}
		if err := n.cfg.Reservations.Register(ctx, path, g.Key, g.Old); err != nil {
			return n.unknown(err)
		}
		if proof == "" {
			continue
		}
		if err := n.cfg.Reservations.Confirm(ctx, proof, g.Key); err != nil {
			return errors.Join(n.unknown(err), n.unregister(ctx, l, g.Key))
		}
	}
	return nil
}

// reserve reserves the LUN, if nobody has, for all that are registered.
func (n *Node) reserve(ctx context.Context, l found, key uint64) (sharedlun.Reservation, error) {
	r, err := n.read(ctx, l)
	if err != nil {
		return r, n.unknown(err)
	}
	switch {
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
		if err := n.cfg.Reservations.Register(ctx, path, key, 0); err != nil {
			return n.unknown(err)
		}
	}
	return nil
}

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
		if err := n.unregister(ctx, l, key); err != nil {
			return r, err
		}
		if r, err = n.read(ctx, l); err != nil {
			return r, n.unknown(err)
		}
		return r, n.left(r, id, key)
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
			return n.unknown(err)
		}
	case alone(r, key):
		return n.convert(ctx, l, key)
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

// left refuses to call a key taken off that is registered still, or whose end left the others without a reservation.
func (n *Node) left(r sharedlun.Reservation, id sharedlun.Identity, key uint64) error {
	if r.Has(key) {
		return fmt.Errorf("node %s, LUN %s: %w: key %#x is registered still, by a path that is down", n.cfg.NodeName, id.WWID, sharedlun.ErrUnknown, key)
	}
	if len(r.Keys) > 0 && r.Type == 0 {
		return fmt.Errorf("LUN %s, after node %s left it: %w", id.WWID, n.cfg.NodeName, r.Guarded())
	}
	return nil
}
