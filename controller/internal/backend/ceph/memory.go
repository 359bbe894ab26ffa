package ceph

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// memory is what this process remembers between two looks. It may be lost: everything is asked again.
type memory struct {
	mu       sync.Mutex
	clusters map[types.UID]*known
}

// known is what is remembered of one Cluster.
type known struct {
	mu sync.Mutex
	// told is what Ceph said last, asked when that was begun, and problem why it said nothing then.
	told    *view.Told
	asked   time.Time
	problem string
	// changes counts the steps, and seen those that told has in it.
	changes, seen int
	// done is closed when the question that is under way is over; nil while there is none.
	done chan struct{}
	// failedOver is when another metadata server was made to serve last.
	failedOver time.Time
	// verdicts on disks, by the UUID of their OSDs, or as suspects by their keys.
	verdicts map[string]judged
	// clocks of nodes, as they were read last.
	clocks map[string]clock
	// cephSweeps are the pods that remove data of monitors, by name, for which the image of an agent did not do.
	cephSweeps map[string]bool
	// missing are disks that agents tell nothing of, by the UUID of their OSDs.
	missing map[string]absence
}

// absence is since when an agent tells of no such disk, without a break, and in which boot of its host; and when that was seen last.
type absence struct {
	boot        string
	since, last time.Time
}

// clock is that of a node, and when it was read.
type clock struct {
	preflight.Clock
	at time.Time
}

// judged is what was said of a disk, and what the disk was like then.
type judged struct {
	osd.Verdict
	digest string
	at     time.Time
}

func (m *memory) of(uid types.UID) *known {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.clusters[uid]
	if k == nil {
		k = &known{verdicts: map[string]judged{}, clocks: map[string]clock{}, missing: map[string]absence{}, cephSweeps: map[string]bool{}}
		m.clusters[uid] = k
	}
	return k
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, uid)
}

// changed notes that what Ceph said is older than a change.
func (m *memory) changed(uid types.UID) { m.note(uid, func(k *known) { k.changes++ }) }

// touched notes that what is on a disk was changed.
func (m *memory) touched(uid types.UID, osdUUID string) {
	m.note(uid, func(k *known) { delete(k.verdicts, osdUUID) })
}

// note reads or changes what is remembered of a Cluster. A step may end after its Cluster was forgotten: that stays so.
func (m *memory) note(uid types.UID, change func(*known)) {
	m.mu.Lock()
	k := m.clusters[uid]
	m.mu.Unlock()
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

// copied are Members that nobody else changes.
func copied(members []*v1alpha1.Member) []*v1alpha1.Member {
	out := make([]*v1alpha1.Member, len(members))
	for i, m := range members {
		out[i] = m.DeepCopy()
	}
	return out
}
