package lun

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Preempt takes another node's key off, and aborts its commands. A key that is not there needs no work. It succeeds only if afterwards, read on every path
// that is up, the key is gone, this node's own is there, and the LUN is reserved so that nobody writes who is not registered.
func (n *Node) Preempt(ctx context.Context, id sharedlun.Identity, key, victim uint64) (sharedlun.Reservation, error) {
	if key == 0 || victim == 0 || key == victim {
		return sharedlun.Reservation{}, fmt.Errorf("%w: preempt %s with %s", sharedlun.ErrInvalid, sharedlun.FormatKey(victim), sharedlun.FormatKey(key))
	}
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		if err := n.preemptSomehow(ctx, l, key, victim); err != nil {
			return sharedlun.Reservation{}, err
		}
		r, err := n.read(ctx, l)
		if err != nil {
			return r, n.unknown(err)
		}
		if r.Has(victim) {
			return r, fmt.Errorf("node %s: %w: key %s is registered still", n.cfg.NodeName, sharedlun.ErrUnknown, sharedlun.FormatKey(victim))
		}
		return r, sharedlun.AfterChange(n.unread(r.Writable(key)))
	})
}

// preemptSomehow works through the first path that can do it.
func (n *Node) preemptSomehow(ctx context.Context, l found, key, victim uint64) error {
	kind, last := sharedlun.ErrUnread, error(nil)
	for _, path := range l.up {
		changed, err := n.preempt(ctx, path, key, victim)
		if err == nil {
			return nil
		}
		if last = err; changed {
			kind = sharedlun.ErrUnknown
		}
		if !errors.Is(err, reservation.ErrPath) && !errors.Is(err, reservation.ErrConflict) {
			break
		}
	}
	if errors.Is(kind, sharedlun.ErrUnknown) {
		return sharedlun.AfterChange(n.known(last, kind))
	}
	return n.known(last, kind)
}

// preempt works through one path, and reports whether it may have changed something. Its errors are those of the tool.
func (n *Node) preempt(ctx context.Context, path string, key, victim uint64) (changed bool, err error) {
	if err := n.cfg.Reservations.Confirm(ctx, path, key); err != nil {
		return false, err
	}
	r, err := n.cfg.Reservations.Read(ctx, path)
	if err == nil {
		err = r.Reservable()
	}
	if err != nil {
		return false, err
	}
	if r.Type == 0 {
		// Without a reservation, it would be no fence. Another node may be quicker.
		if err := n.cfg.Reservations.Reserve(ctx, path, key); err != nil && !errors.Is(err, reservation.ErrConflict) {
			return true, err
		}
	}
	if !r.Has(victim) {
		return r.Type == 0, nil
	}
	// A conflict means that the victim's key went away meanwhile, or our own: the keys tell.
	if err := n.cfg.Reservations.Preempt(ctx, path, key, victim); err != nil && !errors.Is(err, reservation.ErrConflict) {
		return true, err
	}
	return true, nil
}
