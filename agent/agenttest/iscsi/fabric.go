// Package iscsi is a model of iSCSI targets, and of the nodes that use them, for tests: portals, credentials, LUNs, sessions, and reservations per path. The
// agent's own code works on it through the seams of its tools, so that what a test sees is what an agent does; Contract holds the model and
// a real kernel to the same.
package iscsi

import (
	"fmt"
	"slices"
	"sync"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Fabric is all targets and nodes of a test.
type Fabric struct {
	mu      sync.Mutex
	targets []*Target
	nodes   []*Node
}

// Target is one target.
type Target struct {
	f       *Fabric
	iqn     string
	portals []string
	// down are the portals that do not answer.
	down    map[string]bool
	stopped bool
	chap    *sharedlun.Chap
	luns    []*Lun
}

// Lun is one LUN of a target.
type Lun struct {
	f        *Fabric
	number   int64
	identity sharedlun.Identity
	readOnly bool

	// unsupported is true when the target keeps no reservations of it.
	unsupported bool
	// keys are those of paths; holder is the path that reserved the LUN, unless all hold it.
	keys   map[nexus]uint64
	holder nexus
	kind   uint32
	// lagging are portals that tell what was so before, and fences what is preempted when a key comes through a portal.
	lagging map[string]sharedlun.Reservation
	fences  map[string]uint64
	// leads are portals through which another LUN has the number, deaf those whose paths say nothing of it.
	leads map[string]sharedlun.Identity
	deaf  map[string]bool
}

// nexus is a path from an initiator to a target. The target knows a node by the initiator's name and the number of the session, which the initiator puts into
// its ISID.
type nexus struct {
	initiator, iqn, portal string
	session                int
}

// New makes a fabric without targets.
func New() *Fabric { return &Fabric{} }

// AddTarget makes a target with portals, "ADDRESS:PORT" each.
func (f *Fabric) AddTarget(iqn string, portals ...string) *Target {
	t := &Target{f: f, iqn: iqn, portals: portals, down: map[string]bool{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets = append(f.targets, t)
	return t
}

// Target is what agents are told of it.
func (t *Target) Target() sharedlun.Target {
	return sharedlun.Target{IQN: t.iqn, Portals: slices.Clone(t.portals)}
}

// SetChap lets the target ask for credentials; nil lets it ask for none. Sessions that are there stay.
func (t *Target) SetChap(c *sharedlun.Chap) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.chap = c
}

// Stop lets no portal answer, Start all of them. Registrations stay.
func (t *Target) Stop() { t.set(func() { t.stopped = true }) }

// Start ends Stop.
func (t *Target) Start() { t.set(func() { t.stopped = false }) }

// PortalDown lets one portal answer no more, or again.
func (t *Target) PortalDown(portal string, down bool) { t.set(func() { t.down[portal] = down }) }

func (t *Target) set(change func()) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	change()
}

// AddLun makes a LUN of a size in bytes with nothing on it. Its identity is made of the target's name and the number.
func (t *Target) AddLun(number, bytes int64) *Lun {
	l := &Lun{f: t.f, number: number, keys: map[nexus]uint64{}, lagging: map[string]sharedlun.Reservation{}, fences: map[string]uint64{}, leads: map[string]sharedlun.Identity{}, deaf: map[string]bool{}, identity: sharedlun.Identity{
		WWID: fmt.Sprintf("naa.6001405%025x", hash(t.iqn)+uint64(number)), Serial: fmt.Sprintf("%s-%d", t.iqn, number), SizeBytes: bytes,
	}}
	t.set(func() { t.luns = append(t.luns, l) })
	return l
}

// Show lets another target show the LUN, too.
func (l *Lun) Show(t *Target) { t.set(func() { t.luns = append(t.luns, l) }) }

// hash is a number for a text, small enough to count on.
func hash(text string) uint64 {
	var h uint64
	for _, c := range []byte(text) {
		h = h*31 + uint64(c)
	}
	return h << 8
}

// Identity is what tells the LUN from others.
func (l *Lun) Identity() sharedlun.Identity {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return l.identity
}

func (l *Lun) set(change func()) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	change()
}

// Swap puts another LUN under the number, without a word to the nodes: their kernels remember the old one.
func (l *Lun) Swap(other sharedlun.Identity) { l.set(func() { l.identity = other }) }

// Lead lets another LUN have the number on one portal alone, as one controller of a target may show it.
func (l *Lun) Lead(portal string, other sharedlun.Identity) {
	l.set(func() { l.leads[portal] = other })
}

// Deafen lets a path through a portal not say which LUN it is, or lets it again.
func (l *Lun) Deafen(portal string, on bool) { l.set(func() { l.deaf[portal] = on }) }

// Resize gives the LUN another size. Nodes see it when they look again.
func (l *Lun) Resize(bytes int64) { l.set(func() { l.identity.SizeBytes = bytes }) }

// SetReadOnly lets nobody write.
func (l *Lun) SetReadOnly(on bool) { l.set(func() { l.readOnly = on }) }

// SetReservations lets the target keep reservations of this LUN, or say that it knows none.
func (l *Lun) SetReservations(on bool) { l.set(func() { l.unsupported = !on }) }

// Lag lets a portal tell the keys and the reservation of now from now on, as the second controller of a target may that was not told; or lets it end that.
func (l *Lun) Lag(portal string, on bool) {
	l.set(func() {
		if delete(l.lagging, portal); on {
			l.lagging[portal] = l.kept()
		}
	})
}

// FenceBefore lets somebody preempt a key right before the next one comes through a portal.
func (l *Lun) FenceBefore(portal string, key uint64) { l.set(func() { l.fences[portal] = key }) }

// Reserve reserves the LUN with a type for a key, as earlier versions and others do.
func (l *Lun) Reserve(key uint64, kind uint32) {
	l.set(func() {
		for n, k := range l.keys {
			if k == key {
				l.holder, l.kind = n, kind
			}
		}
	})
}

// Release ends the reservation. Registrations stay.
func (l *Lun) Release() { l.set(func() { l.holder, l.kind = nexus{}, 0 }) }

// LoseKeys lets the target forget registrations and reservation, as one does that lost its power and did not keep them.
func (l *Lun) LoseKeys() {
	l.set(func() {
		clear(l.keys)
		l.holder, l.kind = nexus{}, 0
	})
}

// ReserveAlone lets somebody hold a reservation of another type with a key, on a path of its own.
func (l *Lun) ReserveAlone(key uint64, kind uint32) {
	l.set(func() {
		l.holder, l.kind = nexus{initiator: "somebody"}, kind
		l.keys[l.holder] = key
	})
}

// MayWrite reports whether the target takes a write of a node through any of its paths that are up.
func (l *Lun) MayWrite(node string) bool {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	for _, n := range l.f.nodes {
		for _, p := range n.paths {
			if n.name == node && p.lun == l && n.up(p) && (l.kind == 0 || l.keys[p.nexus] != 0) && !l.readOnly {
				return true
			}
		}
	}
	return false
}

// answers reports whether a portal answers.
func (t *Target) answers(portal string) bool {
	return !t.stopped && !t.down[portal] && slices.Contains(t.portals, portal)
}
