package backendtest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

// Answer says how a host answers.
type Answer int

// How a host answers.
const (
	// Up: it answers.
	Up Answer = iota
	// Early: nobody can say yet.
	Early
	// Silent: it does not answer, and is expected to.
	Silent
	// Dead: nothing of ours runs on it.
	Dead
)

// Group is a storage's part of a host.
type Group struct {
	UUID, Name string
	// PVs are the UUIDs of what the group was made of.
	PVs []string
	// Volumes on it, ordered.
	Volumes []string
	// Size and Free in bytes.
	Size, Free int64
}

// host is the model of one host.
type host struct {
	name   string
	answer Answer
	// problem is what the backend finds wrong with a host that stays; zero when nothing is.
	problem backend.Finding
	// stuck is why what is on the host cannot be removed; zero when it can.
	stuck backend.Finding
	// blind is true when the host answers, and what is on it cannot be read.
	blind bool
	// dirty are devices that have to be wiped before a group is made.
	dirty []string
	// later is true while the last step of a new host cannot run yet; extra names what it makes.
	extra string
	later bool
	// groups by the UID of their owner, and what was made of extra.
	groups map[types.UID]*Group
	extras map[types.UID]bool

	// steps counts the steps that were performed, failed ones among them; attempts counts calls of Perform.
	steps, attempts int
	faults          []fault
	blocked         chan struct{}
}

// of returns a copy of a host with what matters to one owner.
func (h *host) of(uid types.UID) host {
	c := *h
	c.dirty, c.faults, c.blocked = slices.Clone(h.dirty), nil, nil
	c.groups, c.extras = map[types.UID]*Group{}, map[types.UID]bool{uid: h.extras[uid]}
	if g := h.groups[uid]; g != nil {
		copied := *g
		copied.PVs, copied.Volumes = slices.Clone(g.PVs), slices.Clone(g.Volumes)
		c.groups[uid] = &copied
	}
	return c
}

// Add adds hosts that answer and that nothing is on.
func (b *Backend) Add(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range names {
		if b.hosts[n] != nil {
			b.t.Errorf("host %s exists", n)
			continue
		}
		b.hosts[n] = &host{name: n, groups: map[types.UID]*Group{}, extras: map[types.UID]bool{}}
	}
}

// change changes a host; one that nobody has added fails the test.
func (b *Backend) change(name string, do func(h *host)) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hosts[name]
	if h == nil {
		b.t.Fatalf("backendtest: no host %s", name)
	}
	do(h)
}

// Answer lets a host answer in a way from now on.
func (b *Backend) Answer(name string, a Answer) {
	b.t.Helper()
	b.change(name, func(h *host) { h.answer = a })
}

// Blind lets a host answer without saying what is on it.
func (b *Backend) Blind(name string, blind bool) {
	b.t.Helper()
	b.change(name, func(h *host) { h.blind = blind })
}

// Dirty puts something on devices of a host, so that they have to be wiped.
func (b *Backend) Dirty(name string, devices ...string) {
	b.t.Helper()
	b.change(name, func(h *host) { h.dirty = append(h.dirty, devices...) })
}

// Clean takes away what Dirty put on a host.
func (b *Backend) Clean(name string) {
	b.t.Helper()
	b.change(name, func(h *host) { h.dirty = nil })
}

// Extra lets a host need one more step after its group. While later is true that step cannot run.
func (b *Backend) Extra(name, what string, later bool) {
	b.t.Helper()
	b.change(name, func(h *host) { h.extra, h.later = what, later })
}

// Problem lets the backend find something wrong with a host that stays; the zero Finding ends it.
func (b *Backend) Problem(name string, f backend.Finding) {
	b.t.Helper()
	b.change(name, func(h *host) { h.problem = f })
}

// Stuck lets the backend find something on a host that cannot be removed, and return no step for it; the zero Finding ends it.
func (b *Backend) Stuck(name string, f backend.Finding) {
	b.t.Helper()
	b.change(name, func(h *host) { h.stuck = f })
}

// Make makes a group on a host, as if it had been there before.
func (b *Backend) Make(uid types.UID, name string, g Group) {
	b.t.Helper()
	b.change(name, func(h *host) { h.groups[uid] = &g })
}

// Lose takes the group of an owner off a host, as if its disks were gone, and returns it.
func (b *Backend) Lose(uid types.UID, name string) Group {
	b.t.Helper()
	var g Group
	b.change(name, func(h *host) {
		if h.groups[uid] == nil {
			b.t.Fatalf("backendtest: host %s has no group of %s", name, uid)
		}
		g = *h.groups[uid]
		delete(h.groups, uid)
		delete(h.extras, uid)
	})
	return g
}

// Group returns the group of an owner on a host; nil when there is none.
func (b *Backend) Group(uid types.UID, name string) (g *Group) {
	b.t.Helper()
	b.change(name, func(h *host) {
		if have := h.of(uid).groups[uid]; have != nil {
			g = have
		}
	})
	return g
}

// Empty reports whether nothing of any owner is on a host.
func (b *Backend) Empty(name string) (empty bool) {
	b.t.Helper()
	b.change(name, func(h *host) { empty = len(h.groups) == 0 })
	return empty
}

// AddVolume puts a volume on the group of an owner.
func (b *Backend) AddVolume(uid types.UID, name, volume string, size int64) {
	b.t.Helper()
	b.group(uid, name, func(g *Group) {
		g.Volumes, g.Free = append(g.Volumes, volume), g.Free-size
		slices.Sort(g.Volumes)
	})
}

// RemoveVolume takes a volume off the group of an owner.
func (b *Backend) RemoveVolume(uid types.UID, name, volume string, size int64) {
	b.t.Helper()
	b.group(uid, name, func(g *Group) {
		i := slices.Index(g.Volumes, volume)
		if i < 0 {
			b.t.Fatalf("backendtest: host %s has no volume %s", name, volume)
		}
		g.Volumes, g.Free = slices.Delete(g.Volumes, i, i+1), g.Free+size
	})
}

func (b *Backend) group(uid types.UID, name string, do func(g *Group)) {
	b.t.Helper()
	b.change(name, func(h *host) {
		if h.groups[uid] == nil {
			b.t.Fatalf("backendtest: host %s has no group of %s", name, uid)
		}
		do(h.groups[uid])
	})
}

// Steps returns how many steps were performed on a host, failed ones among them.
func (b *Backend) Steps(name string) (n int) {
	b.t.Helper()
	b.change(name, func(h *host) { n = h.steps })
	return n
}

// Attempts returns how often steps of a host were to be performed.
func (b *Backend) Attempts(name string) (n int) {
	b.t.Helper()
	b.change(name, func(h *host) { n = h.attempts })
	return n
}

// futurePVs returns the UUIDs of what the group of an owner is going to be made of.
func futurePVs(uid types.UID, host string) []string {
	return []string{fmt.Sprintf("pv-%s-%.8s", host, uid)}
}
