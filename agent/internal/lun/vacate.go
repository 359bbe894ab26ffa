package lun

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// vacate takes this node's keys off the paths of a session that ends: a registration outlives its session, and only the session can take it off. Keys that are not
// on record stay. It is refused with sharedlun.ReasonLastKey before anything is changed, if a reservation would end. A path that is down keeps its key: its session
// may be one that the target refuses, and other credentials are all that helps.
func (n *Node) vacate(ctx context.Context, s iscsi.Session, luns []sharedlun.Lun, keys []uint64) error {
	var taken []claimed
	for _, l := range luns {
		c, err := n.claimedBy(ctx, s, l, keys)
		if err != nil {
			return err
		}
		if c.key != 0 {
			taken = append(taken, c)
		}
	}
	for _, c := range taken {
		if alone(c.r, c.key) {
			if err := n.bare(c.found); err != nil {
				return err
			}
			if err := n.convert(ctx, c.found, c.key); err != nil {
				return sharedlun.AfterChange(err)
			}
		}
		if err := n.cfg.Reservations.Unregister(ctx, c.path, c.key); err != nil {
			return sharedlun.AfterChange(n.unknown(err))
		}
	}
	return nil
}

// claimed is a LUN with the path to it through one session, and the key that the path has; 0 for none.
type claimed struct {
	found
	path string
	key  uint64
	r    sharedlun.Reservation
}

func (n *Node) claimedBy(ctx context.Context, s iscsi.Session, l sharedlun.Lun, keys []uint64) (claimed, error) {
	c := claimed{found: found{Lun: l}}
	for _, p := range l.Paths {
		if !p.Up {
			continue
		}
		device := filepath.Join(n.cfg.Dev, p.Device)
		if c.up = append(c.up, device); p.Session == int64(s.ID) {
			c.path = device
		}
	}
	if c.path == "" || len(keys) == 0 {
		return c, nil
	}
	var err error
	if c.r, err = n.cfg.Reservations.Read(ctx, c.path); err != nil {
		return c, n.unread(err)
	}
	for _, key := range keys {
		has, err := n.registered(ctx, c.path, c.r, key)
		if err != nil {
			return c, err
		}
		if has {
			c.key = key
			return c, n.spared(c)
		}
	}
	return c, nil
}

// registered reports whether a path has a key.
func (n *Node) registered(ctx context.Context, path string, r sharedlun.Reservation, key uint64) (bool, error) {
	if key == 0 || !r.Has(key) {
		return false, nil
	}
	err := n.cfg.Reservations.Confirm(ctx, path, key)
	if errors.Is(err, reservation.ErrConflict) {
		return false, nil
	}
	return err == nil, n.unread(err)
}

// spared makes sure that a reservation stays once this node's key is gone. Its other paths do not count: their sessions are made anew next.
func (n *Node) spared(c claimed) error {
	if err := c.r.Reservable(); err != nil {
		return n.unread(err)
	}
	if c.r.Type == 0 || slices.ContainsFunc(c.r.Keys, func(k uint64) bool { return k != c.key }) {
		return nil
	}
	return sharedlun.NewProblem(sharedlun.ReasonLastKey, "Only node %s has a key on LUN %s. The reservation would end with it, so that the session is not made anew: "+
		"it keeps the credentials that it was made with, and the next one gets the new ones.", n.cfg.NodeName, c.WWID)
}
