package pin

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// pause is how long a claim is left alone after the provisioner has taken its node off. The provisioner puts what it wrote into its own cache
// afterwards. A node that is set in between is lost there, and the claim is not looked at again for a quarter of an hour.
const pause = 3 * time.Second

// patience is how long a claim may have a node and no volume before the provisioner is reminded of it.
const patience = 30 * time.Second

// moments remembers since when something is so of claims.
type moments struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// wait returns how long a claim is still to be left alone of which something is so: a pause from when that was first seen. It forgets a claim that
// need not wait.
func (m *moments) wait(claim types.UID, so bool, now time.Time, pause time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, since := range m.since {
		// A claim that is gone, or of which it is not so any more, is not asked for again.
		if now.Sub(since) > time.Minute {
			delete(m.since, other)
		}
	}
	if !so {
		delete(m.since, claim)
		return 0
	}
	since, ok := m.since[claim]
	if !ok {
		if m.since == nil {
			m.since = map[types.UID]time.Time{}
		}
		m.since[claim], since = now, now
	}
	if left := pause - now.Sub(since); left > 0 {
		return left
	}
	delete(m.since, claim)
	return 0
}
