package lun

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Login makes a session with every portal of a target. It fails only when no session is up. renew makes those that are there anew, one after the other,
// so that the credentials are tried, and takes the keys off their paths before; a session without which a LUN in use would have no path is left, which is an error. A LUN that is reserved, and on which
// something is built here, gets no new path: that would carry I/O before it has a key.
func (n *Node) Login(ctx context.Context, t sharedlun.Target, c *sharedlun.Chap, renew *sharedlun.Renewal) (sharedlun.Seen, error) {
	if err := errors.Join(t.Check(), valid(c)); err != nil {
		return sharedlun.Seen{}, err
	}
	release, err := n.lockTarget(t.IQN)
	if err != nil {
		return sharedlun.Seen{}, err
	}
	defer release()
	initiator, err := n.cfg.Initiator.Initiator(ctx)
	if err != nil {
		return sharedlun.Seen{}, err
	}
	if len(t.Portals) > 1 && !initiator.Multipath {
		return sharedlun.Seen{}, sharedlun.NewProblem(sharedlun.ReasonMultipathMissing,
			"Target %s has %d portals, and multipathd does not run on node %s. Run it there, or name one portal.", t.IQN, len(t.Portals), n.cfg.NodeName)
	}
	failed, refusal, err := n.loginAll(ctx, t, c)
	if err != nil {
		return sharedlun.Seen{}, err
	}
	if renew != nil {
		if refusal != nil {
			return sharedlun.Seen{}, refusal
		}
		if err := n.renew(ctx, t, c, renew.Keys); err != nil {
			return sharedlun.Seen{}, err
		}
	}
	seen, err := n.GetTarget(ctx, t, false)
	if err != nil {
		return sharedlun.Seen{}, err
	}
	return seen, outcome(t, seen.Sessions, failed)
}

// loginAll goes through the portals. failed are those without a session, with the reason; refusal says why no session may be made anew, nil when one may.
func (n *Node) loginAll(ctx context.Context, t sharedlun.Target, c *sharedlun.Chap) (failed map[string]error, refusal, err error) {
	sessions, luns, err := n.look(t.IQN)
	if err != nil {
		return nil, nil, err
	}
	refusal = n.guarded(ctx, t.IQN, luns)
	failed = map[string]error{}
	for _, portal := range t.Portals {
		there := slices.ContainsFunc(sessions, func(s iscsi.Session) bool { return s.Portal == portal })
		if !there {
			// A login takes seconds: what was built on the LUN meanwhile counts, too.
			if _, luns, err = n.look(t.IQN); err != nil {
				return nil, nil, err
			}
			refusal = n.guarded(ctx, t.IQN, luns)
		}
		if refusal != nil && !there {
			failed[portal] = refusal
			continue
		}
		if err := n.cfg.Initiator.Login(ctx, t.IQN, portal, c); err != nil {
			failed[portal] = err
		}
	}
	return failed, refusal, nil
}

// guarded refuses a new path to a LUN on which something is built here, if it is reserved, or if that is not known: multipathd sends I/O down a path as soon as it is
// there, the target refuses that of a path without a key, and multipathd does not try a reservation conflict on another path.
func (n *Node) guarded(ctx context.Context, iqn string, luns []sharedlun.Lun) error {
	for _, l := range luns {
		holders, err := n.cfg.Uses.Holders(l)
		if err == nil && len(holders) == 0 {
			continue
		}
		because := "in use by " + UsedByDevice + strings.Join(holders, ", "+UsedByDevice)
		if err != nil {
			because = "perhaps in use, which cannot be found out: " + err.Error()
		} else if r, errRead := n.reservationOf(ctx, l); errRead != nil {
			because += ", and whether it is reserved cannot be read: " + errRead.Error()
		} else if !r.Held() {
			continue
		}
		return n.inUse(iqn, l, because+". A new session would carry I/O before it has a key, so that none is made until no volume is mapped here: drain the node")
	}
	return nil
}

// reservationOf reads the reservation of a LUN on its paths that are up.
func (n *Node) reservationOf(ctx context.Context, l sharedlun.Lun) (sharedlun.Reservation, error) {
	f := found{Lun: l}
	for _, p := range l.Paths {
		if p.Up {
			f.up = append(f.up, filepath.Join(n.cfg.Dev, p.Device))
		}
	}
	if len(f.up) == 0 {
		return sharedlun.Reservation{}, fmt.Errorf("no path is up: %w", sharedlun.ErrUnread)
	}
	return n.read(ctx, f)
}

func valid(c *sharedlun.Chap) error {
	if c == nil {
		return nil
	}
	return c.Check()
}

// outcome writes the failures of logins into sessions that are not up. It returns the one that says most when none is up.
func outcome(t sharedlun.Target, sessions []sharedlun.Session, failed map[string]error) error {
	up := false
	var worst error
	for i := range sessions {
		s := &sessions[i]
		up = up || s.State == sharedlun.SessionUp
		err := failed[s.Portal]
		if err == nil || s.State == sharedlun.SessionUp {
			continue
		}
		s.Message = strings.TrimSpace(s.Message + " " + err.Error())
		var p *sharedlun.Problem
		if worst == nil || errors.As(worst, &p) && p.Reason == sharedlun.ReasonPortalUnreachable {
			worst = err
		}
	}
	switch {
	case up:
		return nil
	case worst != nil:
		return worst
	}
	return sharedlun.NewProblem(sharedlun.ReasonTargetUnreachable, "No session with target %s is up: %s", t.IQN, sessions[0].Message)
}
