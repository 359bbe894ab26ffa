package iscsi

import (
	"context"
	"fmt"
	"slices"

	hostiscsi "quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/lun"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Node is a node that uses targets. Its methods are the agent's own, over the model's kernel.
type Node struct {
	*lun.Node
	f         *Fabric
	name      string
	initiator sharedlun.Initiator
	sessions  []session
	paths     []*path
	count     int
	// users say who uses a LUN on this node, by its WWID; holders what is built on it.
	users, holders map[string][]string
	// records are the targets that open-iscsi has on record here.
	records map[string]*sharedlun.Chap
	// unserved are the portals whose sessions iscsid does not serve.
	unserved map[string]bool
	// atLogin is what happens here while a session with a portal is made; nil for nothing.
	atLogin func(portal string)
}

type session struct {
	id     int
	target *Target
	portal string
	// initiator is the node's name when it was made.
	initiator string
}

// path is a device of the node's kernel, which remembers what it was told when it found the LUN.
type path struct {
	nexus
	target *Target
	lun    *Lun
	device string
	seen   sharedlun.Identity
}

// AddNode makes a node with multipathd.
func (f *Fabric) AddNode(name, bootID string) *Node {
	n := &Node{
		f: f, name: name, users: map[string][]string{}, holders: map[string][]string{}, records: map[string]*sharedlun.Chap{},
		initiator: sharedlun.Initiator{Name: "iqn.2026-01.storage.quarry:" + name, OfHost: true, Multipath: true},
	}
	n.Node = n.engine(bootID)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = append(f.nodes, n)
	return n
}

func (n *Node) engine(bootID string) *lun.Node {
	return lun.New(lun.Config{
		NodeName: n.name, BootID: bootID, Dev: "/dev", Initiator: kernel{n}, Reservations: targets{n}, Uses: uses{n},
	})
}

// Boot ends all sessions, as a boot does, and begins another boot. Registrations at targets stay.
func (n *Node) Boot(bootID string) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.sessions, n.paths, n.count = nil, nil, 0
	clear(n.users)
	clear(n.holders)
	n.Node = n.engine(bootID)
}

// SetInitiator changes what the node says of its initiator.
func (n *Node) SetInitiator(i sharedlun.Initiator) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.initiator = i
}

// Use lets somebody use a LUN on this node; without words it is free again. Hold lets something be built on it.
func (n *Node) Use(l *Lun, by ...string) { n.mark(n.users, l, by) }

// Hold lets something be built on a LUN on this node; without words nothing is.
func (n *Node) Hold(l *Lun, what ...string) { n.mark(n.holders, l, what) }

func (n *Node) mark(in map[string][]string, l *Lun, words []string) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	in[l.identity.WWID] = words
}

// Rescan lets the kernel ask again what it remembers of a LUN. What is built on it stays there.
func (n *Node) Rescan(l *Lun) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	for _, p := range n.paths {
		if p.lun == l && p.seen != l.identity {
			n.holders[l.identity.WWID], p.seen = n.holders[p.seen.WWID], l.identity
		}
	}
}

// Cut ends the session with a portal, as somebody else may.
func (n *Node) Cut(portal string) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.sessions = slices.DeleteFunc(n.sessions, func(s session) bool { return s.portal == portal })
	n.paths = slices.DeleteFunc(n.paths, func(p *path) bool { return p.portal == portal })
}

// Records are the targets that open-iscsi has on record, ordered.
func (n *Node) Records() []string {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	var out []string
	for iqn := range n.records {
		out = append(out, iqn)
	}
	slices.Sort(out)
	return out
}

// up reports whether a path is up.
func (n *Node) up(p *path) bool { return p.target.answers(p.portal) }

// kernel is the node's initiator.
type kernel struct{ *Node }

var _ lun.Initiator = kernel{}

func (k kernel) Initiator(context.Context) (sharedlun.Initiator, error) {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	return k.initiator, nil
}

// Sessions implements lun.Initiator.
func (k kernel) Sessions(iqn string) ([]hostiscsi.Session, error) {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	var out []hostiscsi.Session
	for _, s := range k.sessions {
		if iqn != "" && s.target.iqn != iqn {
			continue
		}
		seen := hostiscsi.Session{ID: s.id, IQN: s.target.iqn, Portal: s.portal, Up: s.target.answers(s.portal), Initiator: s.initiator}
		if !seen.Up {
			seen.Message = "The session is FAILED and its connection failed."
		}
		out = append(out, seen)
	}
	return out, nil
}

// Luns implements lun.Initiator.
func (k kernel) Luns(sessions []hostiscsi.Session) ([]sharedlun.Lun, error) {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	var out []sharedlun.Lun
	for _, s := range sessions {
		for _, p := range k.paths {
			if p.session != s.ID {
				continue
			}
			i := slices.IndexFunc(out, func(l sharedlun.Lun) bool { return l.WWID == p.seen.WWID && l.Serial == p.seen.Serial })
			if i < 0 {
				out, i = append(out, sharedlun.Lun{Identity: p.seen, Number: p.lun.number, ReadOnly: p.lun.readOnly, Device: p.device}), len(out)
			}
			out[i].Paths = append(out[i].Paths, sharedlun.Path{Target: p.iqn, Portal: p.portal, Device: p.device, Session: int64(p.session), Up: k.up(p), Initiator: p.initiator})
		}
	}
	for i := range out {
		l := &out[i]
		if len(l.Paths) == 1 {
			continue
		}
		if l.Device = ""; k.initiator.Multipath {
			l.Device = "dm-" + l.WWID
			for j := range l.Paths {
				l.Paths[j].Map = l.Device
			}
		}
	}
	slices.SortStableFunc(out, func(a, b sharedlun.Lun) int { return int(a.Number - b.Number) })
	return out, nil
}

// Login implements lun.Initiator.
func (k kernel) Login(ctx context.Context, iqn, portal string, c *sharedlun.Chap) error {
	if k.atLogin != nil {
		k.atLogin(portal)
	}
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if k.initiator.Problem != nil {
		return k.initiator.Problem
	}
	for _, s := range k.sessions {
		if s.target.iqn == iqn && s.portal == portal {
			k.records[iqn] = c
			k.scan(s)
			return nil
		}
	}
	listens := slices.ContainsFunc(k.f.targets, func(t *Target) bool { return t.answers(portal) })
	if !listens {
		return sharedlun.NewProblem(sharedlun.ReasonPortalUnreachable, "Node %s cannot connect to portal %s.", k.name, portal)
	}
	i := slices.IndexFunc(k.f.targets, func(t *Target) bool { return t.iqn == iqn && t.answers(portal) })
	if i < 0 {
		return sharedlun.NewProblem(sharedlun.ReasonWrongTarget, "Portal %s has no target %s for node %s.", portal, iqn, k.name)
	}
	t := k.f.targets[i]
	k.records[iqn] = c
	if !t.accepts(c) {
		return sharedlun.NewProblem(sharedlun.ReasonWrongChap, "Node %s reached portal %s, and target %s refuses the credentials.", k.name, portal, iqn)
	}
	k.count++
	s := session{id: k.count, target: t, portal: portal, initiator: k.initiator.Name}
	k.sessions = append(k.sessions, s)
	k.scan(s)
	return nil
}

// accepts reports whether a target and an initiator accept each other's credentials. Who expects none of the target takes any.
func (t *Target) accepts(c *sharedlun.Chap) bool {
	if t.chap == nil || c == nil {
		return t.chap == nil && (c == nil || c.MutualUsername == "")
	}
	mutual := c.MutualUsername == "" || c.MutualUsername == t.chap.MutualUsername && c.MutualPassword == t.chap.MutualPassword
	return mutual && c.Username == t.chap.Username && c.Password == t.chap.Password
}

// scan finds new LUNs, and the sizes of those that are known. It believes that a number is the same LUN as before.
func (k kernel) scan(s session) {
	if !s.target.answers(s.portal) {
		return
	}
	for _, l := range s.target.luns {
		i := slices.IndexFunc(k.paths, func(p *path) bool { return p.session == s.id && p.lun == l })
		if i >= 0 {
			k.paths[i].seen.SizeBytes = l.identity.SizeBytes
			continue
		}
		k.Node.paths = append(k.Node.paths, &path{
			nexus: nexus{s.initiator, s.target.iqn, s.portal, s.id}, target: s.target, lun: l, seen: l.identity,
			device: fmt.Sprintf("sd%d-%d", s.id, l.number),
		})
	}
}

// Logout implements lun.Initiator. The model's kernel refuses what a real one lets pass: a session that is in use.
func (k kernel) Logout(_ context.Context, s hostiscsi.Session) error {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	for _, p := range k.paths {
		left := slices.ContainsFunc(k.paths, func(o *path) bool { return o.lun == p.lun && o.session != s.ID && k.up(o) })
		if p.session == s.ID && !left && len(k.users[p.seen.WWID])+len(k.holders[p.seen.WWID]) > 0 {
			panic(fmt.Sprintf("session %d of node %s is ended while LUN %s is in use", s.ID, k.name, p.seen.WWID))
		}
	}
	k.Node.sessions = slices.DeleteFunc(k.sessions, func(o session) bool { return o.id == s.ID })
	k.Node.paths = slices.DeleteFunc(k.paths, func(p *path) bool { return p.session == s.ID })
	return nil
}

// Flush implements lun.Initiator. A map goes with its last path.
func (k kernel) Flush(context.Context, string) error { return nil }

// Recorded implements lun.Initiator.
func (k kernel) Recorded(_ context.Context, iqn string) (bool, error) {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	_, is := k.records[iqn]
	return is, nil
}

// Forget implements lun.Initiator.
func (k kernel) Forget(_ context.Context, iqn string) error {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	delete(k.records, iqn)
	return nil
}
