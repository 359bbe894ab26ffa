// Package told remembers which Members have a status that this process told itself. After a start the status of a Member is what an earlier leader told, or a
// backup: whatever became of its disks since then is not in it.
package told

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lately is how old a status may be that was told last. A storage is looked at every minute; one that cannot be looked at any more tells nothing.
const lately = 5 * time.Minute

// Members remembers Members by UID. The zero value remembers none. A nil one remembers none, whatever it is told.
type Members struct {
	mu    sync.Mutex
	count int
	all   map[types.UID]telling
}

// telling is when a Member was told of: first, in the order of all that were, and last.
type telling struct {
	first int
	last  time.Time
}

// Tell remembers that the status of a Member says how it is now. It is called once the status is written.
func (m *Members) Tell(uid types.UID, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[types.UID]telling{}
	}
	one, known := m.all[uid]
	if !known || now.Sub(one.last) > lately {
		m.count++
		one.first = m.count
	}
	one.last = now
	m.all[uid] = one
}

// Until returns which Members were told of until now, and lately. What is read after that has what was told of them.
func (m *Members) Until(now time.Time) func(types.UID) bool {
	if m == nil {
		return func(types.UID) bool { return false }
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.count
	return func(uid types.UID) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		one, known := m.all[uid]
		return known && one.first <= until && now.Sub(one.last) <= lately
	}
}

// Forget drops a Member that is gone.
func (m *Members) Forget(uid types.UID) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, uid)
}
