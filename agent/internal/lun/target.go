package lun

import (
	"context"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/pkg/sharedlun"
)

// GetInitiator describes the initiator of this node.
func (n *Node) GetInitiator(ctx context.Context) (sharedlun.Initiator, error) {
	return n.cfg.Initiator.Initiator(ctx)
}

// GetTarget reads the sessions with a target and the LUNs that they show, with every path that this node has to them: one through another target needs the key, too. With users it
// tells who uses the LUNs here.
func (n *Node) GetTarget(ctx context.Context, t sharedlun.Target, users bool) (sharedlun.Seen, error) {
	if err := t.Check(); err != nil {
		return sharedlun.Seen{}, err
	}
	sessions, luns, err := n.everyPath(t.IQN)
	if err != nil {
		return sharedlun.Seen{}, err
	}
	n.cfg.Initiator.MarkUnserved(ctx, sessions)
	for i := range luns {
		if !users {
			break
		}
		if luns[i].Users, err = n.cfg.Uses.Of(ctx, luns[i]); err != nil {
			luns[i].UsersError = err.Error()
		}
	}
	recorded, err := n.cfg.Initiator.Recorded(ctx, t.IQN)
	// What cannot be read counts as there: only a node that leaves is asked to remove it.
	return sharedlun.Seen{Sessions: iscsi.States(t, sessions), Luns: luns, Recorded: recorded || err != nil}, nil
}

// everyPath reads the sessions with a target, and the LUNs that they show with their paths through all targets.
func (n *Node) everyPath(iqn string) ([]iscsi.Session, []sharedlun.Lun, error) {
	all, err := n.cfg.Initiator.Sessions("")
	if err != nil {
		return nil, nil, err
	}
	var own, others []iscsi.Session
	for _, s := range all {
		if s.IQN == iqn {
			own = append(own, s)
		} else {
			others = append(others, s)
		}
	}
	// The number of a LUN is that of its first path.
	luns, err := n.cfg.Initiator.Luns(slices.Concat(own, others))
	luns = slices.DeleteFunc(luns, func(l sharedlun.Lun) bool {
		return !slices.ContainsFunc(l.Paths, func(p sharedlun.Path) bool { return p.Target == iqn })
	})
	return own, luns, err
}

// Known are the kernel names of the devices of LUNs: paths, and maps over them, of sessions that are up or down. The kernel's memory of who they are is enough, so that a LUN
// that does not answer is among them. A device with only one of the two names of a LUN is not.
func (n *Node) Known(ids []sharedlun.Identity) ([]string, error) {
	_, luns, err := n.look("")
	var out []string
	for _, l := range luns {
		if slices.ContainsFunc(ids, func(id sharedlun.Identity) bool { return id.Check() == nil && id.Named(l.Identity) == nil }) {
			out = append(out, devices(l)...)
		}
	}
	return out, err
}

func (n *Node) look(iqn string) ([]iscsi.Session, []sharedlun.Lun, error) {
	sessions, err := n.cfg.Initiator.Sessions(iqn)
	if err != nil {
		return nil, nil, err
	}
	luns, err := n.cfg.Initiator.Luns(sessions)
	return sessions, luns, err
}

// Logout ends the sessions with a target and removes its records. It refuses while a LUN is in use, or when that is not known.
func (n *Node) Logout(ctx context.Context, t sharedlun.Target) error {
	if err := t.Check(); err != nil {
		return err
	}
	release, err := n.lockTarget(t.IQN)
	if err != nil {
		return err
	}
	defer release()
	sessions, luns, err := n.look(t.IQN)
	if err != nil {
		return err
	}
	// All are looked at before the first loses its map.
	for _, l := range luns {
		if err := n.unused(ctx, t.IQN, l); err != nil {
			return err
		}
	}
	for _, l := range luns {
		release, err := n.claim(ctx, t.IQN, l)
		if err != nil {
			return err
		}
		defer release()
	}
	for _, s := range sessions {
		if err := n.cfg.Initiator.Logout(ctx, s); err != nil {
			return err
		}
	}
	return n.cfg.Initiator.Forget(ctx, t.IQN)
}

// unused refuses a LUN that somebody uses, or of which that is not known.
func (n *Node) unused(ctx context.Context, iqn string, l sharedlun.Lun) error {
	users, err := n.cfg.Uses.Of(ctx, l)
	switch {
	case len(users) > 0:
		return n.inUse(iqn, l, "in use by "+strings.Join(users, ", "))
	case err != nil:
		return n.inUse(iqn, l, "perhaps in use, which cannot be found out: "+err.Error())
	}
	return nil
}

// claim takes the map of an unused LUN away, and keeps others off its paths until they are released. The kernel refuses both for what is in use.
func (n *Node) claim(ctx context.Context, iqn string, l sharedlun.Lun) (release func(), err error) {
	l.Paths = slices.Clone(l.Paths)
	for i := range l.Paths {
		p := &l.Paths[i]
		if p.Map == "" {
			continue
		}
		if err := n.cfg.Initiator.Flush(ctx, p.Map); err != nil {
			return nil, n.inUse(iqn, l, "in use: "+err.Error())
		}
		p.Map = ""
	}
	if release, err = n.cfg.Uses.Claim(l); err != nil {
		return nil, n.inUse(iqn, l, "in use: "+err.Error())
	}
	return release, nil
}

func (n *Node) inUse(iqn string, l sharedlun.Lun, because string) error {
	return sharedlun.NewProblem(sharedlun.ReasonSessionInUse,
		"LUN %d of target %s (%s) is %s. Seen on node %s.", l.Number, iqn, names(l), because, n.cfg.NodeName)
}

func names(l sharedlun.Lun) string {
	var out []string
	for _, p := range l.Paths {
		out = append(out, p.Device)
	}
	return strings.Join(out, ", ")
}
