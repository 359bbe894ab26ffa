package iscsitest

import (
	"context"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Node returns how the agent of a node is.
func (s *SAN) Node(name string) decide.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	switch {
	case n == nil:
		return decide.Node{Name: name, Agent: decide.AgentMissing, Problem: "no agent runs on this node"}
	case n.agent != decide.AgentUp:
		return decide.Node{Name: name, Agent: n.agent, Problem: "the agent does not answer"}
	}
	return decide.Node{Name: name, Agent: n.agent, BootID: n.boot}
}

// call runs the effect of a call on a node, unless the agent is silent or the test ends it.
func (s *SAN) call(name, call string, effect func(n *node) error) error {
	strike := func(after bool) error {
		if s.Strike == nil {
			return nil
		}
		return s.Strike(call, name, after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call+" "+name)
	n := s.nodes[name]
	if n == nil || n.agent != decide.AgentUp {
		err := fault(decide.FaultUnavailable, name, call, "", "the agent does not answer")
		if slices.Contains(ofLUN, call) {
			// Without a connection nothing was sent.
			return &san.Refusal{Err: err}
		}
		return err
	}
	if err := strike(false); err != nil {
		return err
	}
	if err := effect(n); err != nil {
		if slices.Contains(silent, call) {
			return err
		}
		return &san.Refusal{Err: err}
	}
	return strike(true)
}

// Calls as tests name them: those of SharedLunService, and those whose services do not say of a refusal that nothing was changed.
var (
	ofLUN  = []string{"reservation", "register", "unregister", "preempt"}
	silent = []string{"initiator", "target", "login", "logout"}
)

// Initiator describes the initiator of a node.
func (s *SAN) Initiator(_ context.Context, name string) (i sharedlun.Initiator, boot string, err error) {
	err = s.call(name, "initiator", func(n *node) error {
		i, boot = n.initiator, n.boot
		return nil
	})
	return i, boot, err
}

// Target tells what a node sees of the target.
func (s *SAN) Target(_ context.Context, name string, t sharedlun.Target, users bool) (seen sharedlun.Seen, err error) {
	err = s.call(name, "target", func(n *node) error {
		seen = s.see(n, t)
		for i := range seen.Luns {
			if users && n.uses != "" {
				seen.Luns[i].Users = []string{n.uses}
			}
		}
		return nil
	})
	return seen, err
}

func (s *SAN) see(n *node, t sharedlun.Target) sharedlun.Seen {
	var out sharedlun.Seen
	up := false
	for _, p := range t.Portals {
		one := sharedlun.Session{Portal: p}
		switch {
		case !n.sessions[p] || t.IQN != s.IQN:
		case s.down[p]:
			one.State, one.Message = sharedlun.SessionDown, "its connection failed."
		default:
			one.State, up = sharedlun.SessionUp, true
		}
		out.Sessions = append(out.Sessions, one)
	}
	if !up {
		return out
	}
	for i, l := range s.luns {
		if n.shown != nil && n.shown != l {
			continue
		}
		seen := sharedlun.Lun{Identity: l.Identity, Number: int64(i), Device: "/dev/" + l.Identity.Serial, ReadOnly: l.ReadOnly}
		for _, one := range out.Sessions {
			if one.State != sharedlun.SessionNone {
				seen.Paths = append(seen.Paths, sharedlun.Path{Portal: one.Portal, Device: "sd-" + one.Portal, Up: one.State == sharedlun.SessionUp})
			}
		}
		out.Luns = append(out.Luns, seen)
	}
	return out
}

// Login makes a session with every portal that answers.
func (s *SAN) Login(_ context.Context, name string, t sharedlun.Target, c *sharedlun.Chap, renew *sharedlun.Renewal) (seen sharedlun.Seen, err error) {
	err = s.call(name, "login", func(n *node) error {
		if p := n.initiator.Problem; p != nil {
			return fault(decide.FaultPrecondition, name, "Login", p.Reason, "%s", p.Message)
		}
		reached := false
		for _, p := range t.Portals {
			if s.down[p] {
				continue
			}
			if reached = true; n.sessions[p] && renew == nil {
				continue
			}
			if t.IQN != s.IQN {
				return fault(decide.FaultPrecondition, name, "Login", sharedlun.ReasonWrongTarget, "portal %s has no target %s", p, t.IQN)
			}
			if s.chap != nil && (c == nil || *c != *s.chap) {
				return fault(decide.FaultPrecondition, name, "Login", sharedlun.ReasonWrongChap, "target %s refuses the credentials", t.IQN)
			}
			if err := s.vacate(name, renew); err != nil {
				return err
			}
			n.sessions[p], n.used = true, c
		}
		if !reached {
			return fault(decide.FaultUnavailable, name, "Login", sharedlun.ReasonPortalUnreachable, "node %s reaches no portal of %v", name, t.Portals)
		}
		seen = s.see(n, t)
		return nil
	})
	return seen, err
}

// Logout ends the sessions.
func (s *SAN) Logout(_ context.Context, name string, _ sharedlun.Target) error {
	return s.call(name, "logout", func(n *node) error {
		if len(n.mapped) > 0 {
			return fault(decide.FaultPrecondition, name, "Logout", sharedlun.ReasonSessionInUse, "a volume is mapped")
		}
		clear(n.sessions)
		return nil
	})
}

// lun finds the LUN that a node sees and that is meant.
func (s *SAN) lun(n *node, call string, id sharedlun.Identity) (*LUN, error) {
	i := slices.IndexFunc(s.luns, func(l *LUN) bool { return l.Identity.WWID == id.WWID })
	up := false
	for p := range n.sessions {
		up = up || !s.down[p]
	}
	if i < 0 || !up {
		return nil, fault(decide.FaultNotFound, n.name, call, "", "the node does not see LUN %q", id.WWID)
	}
	if err := id.Same(n.told(s.luns[i])); err != nil {
		return nil, fault(decide.FaultPrecondition, n.name, call, "", "%v", err)
	}
	return s.luns[i], nil
}

// onLUN runs the effect of a call about a LUN.
func (s *SAN) onLUN(name, call string, id sharedlun.Identity, effect func(n *node, l *LUN) error) error {
	return s.call(name, call, func(n *node) error {
		l, err := s.lun(n, call, id)
		if err != nil {
			return err
		}
		return effect(n, l)
	})
}

func (l *LUN) reservation() sharedlun.Reservation {
	if l.NoReservations {
		return sharedlun.Reservation{}
	}
	out := sharedlun.Reservation{Supported: true}
	for _, k := range l.keys {
		out.Keys = append(out.Keys, k)
	}
	slices.Sort(out.Keys)
	if l.reserved {
		out.Type = sharedlun.WriteExclusiveAllRegistrants
	}
	return out
}

// Reservation reads the keys.
func (s *SAN) Reservation(_ context.Context, name string, id sharedlun.Identity, expected bool) (r sharedlun.Reservation, err error) {
	err = s.onLUN(name, "reservation", id, func(_ *node, l *LUN) error {
		if expected && l.NoReservations {
			return fault(decide.FaultPrecondition, name, "GetReservation", "", "the target has no reservations, and had them")
		}
		r = l.reservation()
		return nil
	})
	return r, err
}

const otherKey = "another key of this node is registered"

// refuses says why a node registers no key; empty when it does.
func (n *node) refuses(l *LUN, g sharedlun.Grant) string {
	have := l.keys[n.name]
	switch {
	case g.Initiator != n.initiator.Name || slices.Contains(g.Others, g.Initiator):
		return "the initiator has another name, or that of another node"
	case g.BootID != n.boot:
		return "the node was booted since"
	case have != 0 && have != g.Key && !slices.Contains(g.Old, have):
		return otherKey
	case have != g.Key && (n.uses != "" || len(n.mapped) > 0 && (l.reserved || !n.mapsOnly(g.Own))):
		return "the LUN is in use"
	}
	return ""
}

// Register registers a node's key.
func (s *SAN) Register(_ context.Context, name string, id sharedlun.Identity, g sharedlun.Grant) (r sharedlun.Reservation, err error) {
	key, boot := g.Key, g.BootID
	err = s.onLUN(name, "register", id, func(n *node, l *LUN) error {
		if why := n.refuses(l, g); why != "" {
			reason := ""
			if why == otherKey {
				reason = sharedlun.ReasonOtherKey
			}
			return fault(decide.FaultPrecondition, name, "Register", reason, "%s", why)
		}
		if s.Granted != nil && !s.Granted(name, key, boot) {
			s.violations = append(s.violations, "a key was registered on "+name+" that is not on record")
		}
		for other, k := range l.keys {
			if other != name && k == key {
				s.violations = append(s.violations, "one key for "+name+" and "+other)
			}
		}
		l.keys[name] = key
		if g.Reserve && !l.reserved {
			l.reserved = true
			s.shutOut(l)
		}
		r = l.reservation()
		return nil
	})
	return r, err
}

// Preempt takes another node's key off.
func (s *SAN) Preempt(_ context.Context, name string, id sharedlun.Identity, key, victim uint64) (r sharedlun.Reservation, err error) {
	err = s.onLUN(name, "preempt", id, func(_ *node, l *LUN) error {
		if l.keys[name] != key {
			return fault(decide.FaultPrecondition, name, "Preempt", "", "the node's own key is not registered")
		}
		for other, k := range l.keys {
			if k == victim {
				delete(l.keys, other)
			}
		}
		r = l.reservation()
		return nil
	})
	return r, err
}
