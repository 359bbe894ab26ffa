package pin

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// pause is how long a claim is left alone after the provisioner has taken its node off. The provisioner puts what it wrote into its own cache
// afterwards. A node that is set in between is lost there, and the claim is not looked at again for a quarter of an hour.
const pause = 3 * time.Second

// moments remembers since when claims lack a node that they had.
type moments struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// wait returns how long a claim is still to be left alone. It forgets a claim that need not wait.
func (m *moments) wait(claim types.UID, refused bool, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, since := range m.since {
		// A claim that is gone, or whose node the scheduler has chosen meanwhile, is not asked for again.
		if now.Sub(since) > time.Minute {
			delete(m.since, other)
		}
	}
	if !refused {
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
