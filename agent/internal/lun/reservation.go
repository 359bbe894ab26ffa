package lun

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Reservation reads the keys and the reservation of a LUN. A target without reservations is an answer.
func (n *Node) Reservation(ctx context.Context, id sharedlun.Identity) (sharedlun.Reservation, error) {
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) { return n.read(ctx, l) })
}

// Confirm proves that this node has the key registered, on every path that is up, and that the LUN is reserved so that nobody else can write. The
// error is sharedlun.ErrNoKey when it has not.
func (n *Node) Confirm(ctx context.Context, id sharedlun.Identity, key uint64) (sharedlun.Reservation, error) {
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		if key == 0 {
			return sharedlun.Reservation{}, fmt.Errorf("node %s: %w (0)", n.NodeName, sharedlun.ErrNoKey)
		}
		for _, path := range l.up {
			if err := n.Reservations.Confirm(ctx, path, key); err != nil {
				return sharedlun.Reservation{}, n.known(err)
			}
		}
		r, err := n.read(ctx, l)
		if err == nil {
			err = r.Writable(key)
		}
		return r, err
	})
}

// Register registers this node's key on every path that is up, in place of the old one, and reserves the LUN if nobody has. bootID is the boot that
// the key was granted for.
func (n *Node) Register(ctx context.Context, id sharedlun.Identity, key uint64, bootID string, old uint64) (sharedlun.Reservation, error) {
	if key == 0 || bootID == "" {
		return sharedlun.Reservation{}, fmt.Errorf("%w: key %#x for boot %q", sharedlun.ErrInvalid, key, bootID)
	}
	if bootID != n.BootID {
		return sharedlun.Reservation{}, fmt.Errorf("%w: the key was granted for boot %s, this is %s", sharedlun.ErrRebooted, bootID, n.BootID)
	}
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		r, err := n.read(ctx, l)
		if err != nil {
			return r, err
		}
		if err := free(r); err != nil {
			return r, fmt.Errorf("node %s, LUN %s: %w", n.NodeName, id.WWID, err)
		}
		for _, path := range l.up {
			if err := n.Reservations.Register(ctx, path, key, old); err != nil {
				return r, n.known(err)
			}
		}
		if r.Type == 0 {
			// Another node may be quicker.
			if err := n.Reservations.Reserve(ctx, l.up[0], key); err != nil && !errors.Is(err, reservation.ErrConflict) {
				return r, n.known(err)
			}
		}
		if r, err = n.read(ctx, l); err == nil {
			err = r.Writable(key)
		}
		return r, err
	})
}

// free refuses a LUN that cannot be reserved for all that are registered.
func free(r sharedlun.Reservation) error {
	switch {
	case !r.Supported:
		return sharedlun.ErrNoReservations
	case r.Type != 0 && r.Type != sharedlun.WriteExclusiveRegistrantsOnly:
		return fmt.Errorf("%w: the LUN is reserved with type %d by %#x, which is not ours", sharedlun.ErrNoKey, r.Type, r.Holder)
	}
	return nil
}

// Unregister takes this node's key off every path. It is refused while something is built on the LUN here.
func (n *Node) Unregister(ctx context.Context, id sharedlun.Identity, key uint64) (sharedlun.Reservation, error) {
	if key == 0 {
		return sharedlun.Reservation{}, fmt.Errorf("%w: key 0", sharedlun.ErrInvalid)
	}
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		holders, err := n.Uses.Holders(l.Lun)
		if err != nil {
			return sharedlun.Reservation{}, fmt.Errorf("node %s, LUN %s: %w: %w", n.NodeName, id.WWID, sharedlun.ErrUnknown, err)
		}
		if len(holders) > 0 {
			return sharedlun.Reservation{}, fmt.Errorf("node %s, LUN %s: %w: %s", n.NodeName, id.WWID, sharedlun.ErrInUse, strings.Join(holders, ", "))
		}
		for _, path := range l.up {
			if err := n.Reservations.Unregister(ctx, path, key); err != nil && !errors.Is(err, sharedlun.ErrNoReservations) {
				return sharedlun.Reservation{}, n.known(err)
			}
		}
		r, err := n.read(ctx, l)
		if err == nil && r.Has(key) {
			err = fmt.Errorf("node %s, LUN %s: %w: key %#x is registered still, by a path that is down", n.NodeName, id.WWID, sharedlun.ErrUnknown, key)
		}
		return r, err
	})
}

// Preempt takes another node's key off, aborts its commands, and reads the keys back. A key that is not there needs no work.
func (n *Node) Preempt(ctx context.Context, id sharedlun.Identity, key, victim uint64) (sharedlun.Reservation, error) {
	if key == 0 || victim == 0 || key == victim {
		return sharedlun.Reservation{}, fmt.Errorf("%w: preempt %#x with %#x", sharedlun.ErrInvalid, victim, key)
	}
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		var last error
		for _, path := range l.up {
			r, err := n.preempt(ctx, path, key, victim)
			if !errors.Is(err, reservation.ErrPath) {
				return r, err
			}
			last = err
		}
		return sharedlun.Reservation{}, last
	})
}

// preempt works through one path.
func (n *Node) preempt(ctx context.Context, path string, key, victim uint64) (sharedlun.Reservation, error) {
	if err := n.Reservations.Confirm(ctx, path, key); err != nil {
		return sharedlun.Reservation{}, n.known(err)
	}
	r, err := n.Reservations.Read(ctx, path)
	if err != nil || !r.Has(victim) {
		return r, n.maybe(err)
	}
	// A conflict means that the victim's key went away meanwhile, or our own: the keys tell.
	if err := n.Reservations.Preempt(ctx, path, key, victim); err != nil && !errors.Is(err, reservation.ErrConflict) {
		return sharedlun.Reservation{}, n.known(err)
	}
	if r, err = n.Reservations.Read(ctx, path); err != nil {
		return sharedlun.Reservation{}, n.known(err)
	}
	switch {
	case !r.Has(key):
		err = fmt.Errorf("node %s: %w (%#x)", n.NodeName, sharedlun.ErrNoKey, key)
	case r.Has(victim):
		err = fmt.Errorf("node %s: %w: key %#x is registered still", n.NodeName, sharedlun.ErrUnknown, victim)
	}
	return r, err
}

func (n *Node) maybe(err error) error {
	if err == nil {
		return nil
	}
	return n.known(err)
}

// with does something with a LUN that nobody else works on.
func (n *Node) with(
	ctx context.Context, id sharedlun.Identity, do func(l found) (sharedlun.Reservation, error),
) (sharedlun.Reservation, error) {
	release, err := n.lock(ctx, id)
	if err != nil {
		return sharedlun.Reservation{}, err
	}
	defer release()
	l, err := n.find(ctx, id)
	if err != nil {
		return sharedlun.Reservation{}, err
	}
	return do(l)
}

func (n *Node) read(ctx context.Context, l found) (sharedlun.Reservation, error) {
	r, err := n.Reservations.Read(ctx, l.up[0])
	return r, n.maybe(err)
}
