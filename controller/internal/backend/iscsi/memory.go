package iscsi

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// memory is what this process remembers between two looks. It may be lost: everything is asked again.
type memory struct {
	mu    sync.Mutex
	luns  map[types.UID]*lun
	hosts map[place]*host
}

type place struct {
	owner types.UID
	node  string
}

// lun is what is remembered of one LUN.
type lun struct {
	// changes counts the steps, and seen those that the last reading has in it. generation is that of the spec at that time.
	changes, seen int
	generation    int64
	readOnce      bool
	// claims is how many PersistentVolumes there were then. While the Iscsi is being deleted, one that went takes its volume off the LUN before.
	claims int
	// granted are the keys that this process put on record, and has not seen there yet: what it sees may be older.
	granted []uint64
	// chap is the last that was read of the credentials, at a time.
	chap   iscsi.Chap
	chapAt time.Time
	chapOf int64
	// own is held by the one node that takes its own key off.
	own sync.Mutex
}

// host is what is remembered of one node.
type host struct {
	known iscsi.Host
	// changes counts the steps, and seen those that known has in it.
	changes, seen int
	loginAt       time.Time
	loginChap     string
	paths         string
	// otherKey is the boot in which the target had another key for the node than those on record; empty when it had none.
	otherKey string
	// key is held by the one call about the node's key that may be under way.
	key sync.Mutex
}

func (m *memory) lun(owner types.UID) *lun {
	if m.luns == nil {
		m.luns = map[types.UID]*lun{}
	}
	if m.luns[owner] == nil {
		m.luns[owner] = &lun{}
	}
	return m.luns[owner]
}

func (m *memory) host(owner types.UID, node string) *host {
	if m.hosts == nil {
		m.hosts = map[place]*host{}
	}
	p := place{owner, node}
	if m.hosts[p] == nil {
		m.hosts[p] = &host{}
	}
	return m.hosts[p]
}

// forget drops what is remembered of an Iscsi that is gone. A call about it that is under way keeps the lock that it has.
func (m *memory) forget(owner types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.luns, owner)
	maps.DeleteFunc(m.hosts, func(p place, _ *host) bool { return p.owner == owner })
}

// due reports whether the LUN has to be read again: the last time is long ago, or failed a while ago, there was nobody to ask, or something was changed since.
func (m *memory) due(i *v1alpha1.Iscsi, claims int, last iscsi.Reading, now time.Time) (stamp int, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lun(i.UID)
	old := now.Sub(last.At) >= iscsi.NextLook(last.Failures) || now.Before(last.At)
	went := !i.DeletionTimestamp.IsZero() && l.claims != claims
	return l.changes, !l.readOnce || old || went || !last.Tried || l.changes != l.seen || l.generation != i.Generation
}

// read takes in that the LUN was read, as it was after so many changes.
func (m *memory) read(i *v1alpha1.Iscsi, claims, stamp int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lun(i.UID)
	l.seen, l.generation, l.claims, l.readOnce = stamp, i.Generation, claims, true
}

// changed takes in that a step changed something on a node, and what the LUN says.
func (m *memory) changed(owner types.UID, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lun(owner).changes++
	m.host(owner, node).changes++
}

// recall returns what is known of a node, and reports whether it is still good.
func (m *memory) recall(owner types.UID, node string, now time.Time) (known iscsi.Host, stamp int, good bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.host(owner, node)
	known = h.known
	known.LoginAt, known.LoginChap, known.RegisteredPaths = h.loginAt, h.loginChap, h.paths
	known.OtherKey = h.otherKey != "" && h.otherKey == known.BootID
	fresh := !known.At.IsZero() && now.Sub(known.At) < iscsi.Every && !now.Before(known.At)
	return known, h.changes, fresh && h.changes == h.seen && known.Failed == ""
}

// keep takes in what a node told, as it was after so many changes.
func (m *memory) keep(owner types.UID, node string, known iscsi.Host, stamp int) iscsi.Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.host(owner, node)
	h.known, h.seen = known, stamp
	known.LoginAt, known.LoginChap, known.RegisteredPaths = h.loginAt, h.loginChap, h.paths
	known.OtherKey = h.otherKey != "" && h.otherKey == known.BootID
	return known
}

// grant remembers a key until granted sees it on a Member: from then on the Members alone say whose keys are.
func (m *memory) grant(owner types.UID, key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lun(owner)
	l.granted = append(l.granted, key)
}

func (m *memory) granted(owner types.UID, members []*v1alpha1.Member) []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lun(owner)
	for _, member := range members {
		if r := member.Spec.Reservation; r != nil && member.Spec.Of.UID == owner {
			l.granted = slices.DeleteFunc(l.granted, func(key uint64) bool { return sharedlun.FormatKey(key) == r.Key })
		}
	}
	return slices.Clone(l.granted)
}

// note changes what is remembered of a node.
func (m *memory) note(owner types.UID, node string, change func(*host)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m.host(owner, node))
}

// ownOf returns the lock of the nodes of an Iscsi that take their own keys off.
func (m *memory) ownOf(owner types.UID) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.lun(owner).own
}

// keyOf returns the lock of the calls about a node's key.
func (m *memory) keyOf(owner types.UID, node string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.host(owner, node).key
}
