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

// own refuses a node on which the LUN is in use, unless its key is registered. It returns a path that has the key then; empty when nothing is
// built, or when only paths have it that are gone.
func (n *Node) own(ctx context.Context, l found, r sharedlun.Reservation, g sharedlun.Grant) (proof string, err error) {
	if !r.Has(g.Key) {
		return "", n.free(ctx, l, r, g)
	}
	err = n.bare(l)
	if err == nil || !errors.Is(err, sharedlun.ErrInUse) {
		return "", err
	}
	for _, path := range l.up {
		err := n.cfg.Reservations.Confirm(ctx, path, g.Key)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, reservation.ErrConflict) {
			return "", n.unread(err)
		}
	}
	return "", nil
}

// free refuses a node on which anything uses the LUN. As long as nobody has reserved it, everybody can write: then the devices of the node's own volumes are no
// reason to keep it out.
func (n *Node) free(ctx context.Context, l found, r sharedlun.Reservation, g sharedlun.Grant) error {
	for _, p := range l.Paths {
		if other := l.Paths[0].Target; p.Target != other {
			return fmt.Errorf("node %s, LUN %s: %w through the targets %s and %s: log out of the one that is not the Iscsi's", n.cfg.NodeName, l.WWID, sharedlun.ErrInUse, other, p.Target)
		}
	}
	var own []string
	if !r.Held() && len(g.Own) > 0 {
		holders, err := n.cfg.Uses.Holders(l.Lun)
		if err != nil {
			return fmt.Errorf("node %s, LUN %s: %w: %w", n.cfg.NodeName, l.WWID, sharedlun.ErrUnread, err)
		}
		for _, h := range holders {
			_, uuid, err := n.cfg.Uses.Volume(h)
			if err != nil {
				return fmt.Errorf("node %s, LUN %s: %w: %w", n.cfg.NodeName, l.WWID, sharedlun.ErrUnread, err)
			}
			if uuid != "" && slices.Contains(g.Own, uuid) {
				own = append(own, UsedByDevice+h)
			}
		}
	}
	users, err := n.cfg.Uses.Of(ctx, l.Lun)
	users = slices.DeleteFunc(users, func(u string) bool { return slices.Contains(own, u) })
	switch {
	case len(users) > 0:
		return fmt.Errorf("node %s, LUN %s: %w by %s", n.cfg.NodeName, l.WWID, sharedlun.ErrInUse, strings.Join(users, ", "))
	case err != nil:
		return fmt.Errorf("node %s, LUN %s: who uses it: %w: %w", n.cfg.NodeName, l.WWID, sharedlun.ErrUnread, err)
	}
	return nil
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
