package lun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Reservation reads the keys and the reservation of a LUN, on every path that is up. A target without reservations is an answer, unless the LUN is recorded
// as one that has them: then it is sharedlun.ErrNoReservations.
func (n *Node) Reservation(ctx context.Context, id sharedlun.Identity, expected bool) (sharedlun.Reservation, error) {
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		r, err := n.read(ctx, l)
		if err == nil && expected && !r.Supported {
			err = n.unread(fmt.Errorf("LUN %s: %w any more, on record it has them", id.WWID, sharedlun.ErrNoReservations))
		}
		return r, err
	})
}

// Confirm proves that this node has the key registered, on every path that is up, and that the LUN is reserved so that nobody else can write. The
// error is sharedlun.ErrNoKey when it has not, and sharedlun.ErrNotReserved when others could write, too. The keys and their generation are those of that moment. A change
// does not compare them with those that were granted: the controller does, before a fence or a node's word counts, since a key that was taken off can come
// back by a command that was under way.
//
// It has to be called for every table that lets somebody write, right before the table is live: after the LUN was read, and under the lock by which no other
// call loads one. An earlier Confirm does not count. A fence that comes between the two calls finds a table that the target lets nothing through;
// one that came before finds no table, so that the node's next key finds none either.
func (n *Node) Confirm(ctx context.Context, id sharedlun.Identity, key uint64) (sharedlun.Reservation, error) {
	return n.with(ctx, id, func(l found) (sharedlun.Reservation, error) {
		if err := n.settled(l); err != nil {
			return sharedlun.Reservation{}, err
		}
		return n.confirm(ctx, l, key)
	})
}

// settled refuses while sessions with a target of the LUN are made or ended: a path of a new session has no key at first, and one that is renewed loses it. A table is
// loaded before it is confirmed, and Login looks for tables before each change of a session, with the target locked. So one of the two always sees the other.
func (n *Node) settled(l found) error {
	for _, p := range l.Paths {
		if n.locks.Held(targetLock(p.Target)) {
			return fmt.Errorf("node %s, LUN %s: sessions with target %s are being made or ended: %w", n.cfg.NodeName, l.WWID, p.Target, sharedlun.ErrBusy)
		}
	}
	return nil
}

func (n *Node) confirm(ctx context.Context, l found, key uint64) (sharedlun.Reservation, error) {
	if key == 0 {
		return sharedlun.Reservation{}, fmt.Errorf("node %s: %w (0)", n.cfg.NodeName, sharedlun.ErrNoKey)
	}
	for _, path := range l.up {
		if err := n.cfg.Reservations.Confirm(ctx, path, key); err != nil {
			return sharedlun.Reservation{}, n.unread(err)
		}
	}
	r, err := n.cfg.Reservations.Read(ctx, l.up[0])
	if err != nil {
		return r, n.unread(err)
	}
	return r, r.Writable(key)
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

// looks is how often all paths are read until they tell the same.
const looks = 3

// read reads what the target keeps on every path that is up. Paths that tell different things tell nothing.
func (n *Node) read(ctx context.Context, l found) (sharedlun.Reservation, error) {
	var err error
	for range looks {
		var r sharedlun.Reservation
		if r, err = n.readOnce(ctx, l); !errors.Is(err, errApart) {
			return r, n.unread(err)
		}
	}
	return sharedlun.Reservation{}, fmt.Errorf("node %s, LUN %s: %w: %w", n.cfg.NodeName, l.WWID, sharedlun.ErrUnread, err)
}

var errApart = errors.New("its paths tell different keys or reservations")

func (n *Node) readOnce(ctx context.Context, l found) (sharedlun.Reservation, error) {
	first, err := n.cfg.Reservations.Read(ctx, l.up[0])
	if err != nil {
		return first, err
	}
	for _, path := range l.up[1:] {
		r, err := n.cfg.Reservations.Read(ctx, path)
		if err != nil {
			return r, err
		}
		if r.Supported != first.Supported || r.Type != first.Type || r.Holder != first.Holder || !slices.Equal(r.Keys, first.Keys) {
			return r, errApart
		}
	}
	return first, nil
}
