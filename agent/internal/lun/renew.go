package lun

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	// joinTimeout is how long a new path may take until it is a part of its map again.
	joinTimeout = 30 * time.Second
	joinPause   = 200 * time.Millisecond
)

// renew ends the sessions with the portals of a target and makes them anew, one after the other. The kernel has no other way to other
// credentials: iscsid takes those of a session from where it was made.
func (n *Node) renew(ctx context.Context, t sharedlun.Target, c *sharedlun.Chap, keys []uint64) error {
	for _, portal := range t.Portals {
		sessions, luns, err := n.look(t.IQN)
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if s.Portal != portal {
				continue
			}
			if err := n.renewSession(ctx, s, luns, c, keys); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Node) renewSession(ctx context.Context, s iscsi.Session, luns []sharedlun.Lun, c *sharedlun.Chap, keys []uint64) error {
	joined, alone := map[string]string{}, []sharedlun.Lun{}
	for _, l := range luns {
		switch {
		case !through(l, s.Portal):
		case spare(l, s.Portal):
			joined[l.WWID] = l.Device
		default:
			alone = append(alone, l)
			if err := n.unused(ctx, s.IQN, l); err != nil {
				return err
			}
		}
	}
	for _, l := range alone {
		release, err := n.claim(ctx, s.IQN, l)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := n.end(ctx, s, luns, keys); err != nil {
		return err
	}
	if err := n.cfg.Initiator.Login(ctx, s.IQN, s.Portal, c); err != nil {
		return err
	}
	return n.rejoined(ctx, s, joined)
}

// end ends a session without leaving a key behind. Nobody registers one on a path of it meanwhile.
func (n *Node) end(ctx context.Context, s iscsi.Session, luns []sharedlun.Lun, keys []uint64) error {
	var names []string
	for _, l := range luns {
		names = append(names, lunLock(l.Identity))
	}
	release, err := n.locks.Lock(ctx, names...)
	if err != nil {
		return fmt.Errorf("LUNs of target %s: %w: %w", s.IQN, sharedlun.ErrBusy, err)
	}
	defer release()
	// What was loaded since the call began would lose its paths' keys.
	if err := n.guarded(ctx, s.IQN, luns); err != nil {
		return err
	}
	if err := n.vacate(ctx, s, luns, keys); err != nil {
		return err
	}
	return n.cfg.Initiator.Logout(ctx, s)
}

// through reports whether a path of the LUN leads through a portal.
func through(l sharedlun.Lun, portal string) bool {
	return slices.ContainsFunc(l.Paths, func(p sharedlun.Path) bool { return p.Portal == portal })
}

// spare reports whether a LUN has a map and another path that is up, so that it can do without those through a portal.
func spare(l sharedlun.Lun, portal string) bool {
	return slices.ContainsFunc(l.Paths, func(p sharedlun.Path) bool {
		return p.Portal != portal && p.Up && p.Map != "" && p.Map == l.Device
	})
}

// rejoined waits until the new paths are parts of their maps: the next session may go only then.
func (n *Node) rejoined(ctx context.Context, s iscsi.Session, joined map[string]string) error {
	deadline := time.Now().Add(joinTimeout)
	for {
		_, luns, err := n.look(s.IQN)
		if err != nil {
			return err
		}
		late := slices.ContainsFunc(luns, func(l sharedlun.Lun) bool {
			return joined[l.WWID] != "" && !whole(l, joined[l.WWID])
		})
		if !late {
			return nil
		}
		if time.Now().After(deadline) {
			return sharedlun.NewProblem(sharedlun.ReasonMultipathMissing,
				"Node %s: multipathd does not take the new path through %s. The other sessions are left as they are.", n.cfg.NodeName, s.Portal)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(joinPause):
		}
	}
}

// whole reports whether every path is up, and a part of the map.
func whole(l sharedlun.Lun, device string) bool {
	return !slices.ContainsFunc(l.Paths, func(p sharedlun.Path) bool { return !p.Up || p.Map != device })
}
