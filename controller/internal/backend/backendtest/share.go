package backendtest

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// share is what belongs to a storage and to no host.
type share struct {
	// down says why a storage without members does not serve; empty when it does.
	down string
	// steps of the whole that are left, in order.
	steps []Step
	// hold are hosts whose steps wait, with the reason.
	hold map[string]string
	// holding names what holds the deletion up.
	holding    []string
	size, free int64
}

func (s *share) copy() share {
	c := *s
	c.steps, c.hold, c.holding = slices.Clone(s.steps), maps.Clone(s.hold), slices.Clone(s.holding)
	return c
}

// Share changes what belongs to a storage and to no host.
func (b *Backend) share(uid types.UID, do func(s *share)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shares[uid] == nil {
		b.shares[uid] = &share{}
	}
	do(b.shares[uid])
}

// Down lets a storage without members not serve, and says why; empty lets it serve again.
func (b *Backend) Down(uid types.UID, why string) { b.share(uid, func(s *share) { s.down = why }) }

// Space sets the capacity of a storage without members.
func (b *Backend) Space(uid types.UID, size, free int64) {
	b.share(uid, func(s *share) { s.size, s.free = size, free })
}

// WholeStep adds a step of the whole, which runs on a host.
func (b *Backend) WholeStep(uid types.UID, via, what string, destroys, later bool) {
	b.share(uid, func(s *share) {
		s.steps = append(s.steps, Step{Owner: uid, Through: via, Does: ActionShare, What: what, Dirty: destroys, NotYet: later})
	})
}

// GuardStep adds a step of the whole that keeps data from harm.
func (b *Backend) GuardStep(uid types.UID, what string) {
	b.share(uid, func(s *share) {
		s.steps = append(s.steps, Step{Owner: uid, Does: ActionShare, What: what, For: what})
	})
}

// Possible lets every step of the whole run.
func (b *Backend) Possible(uid types.UID) {
	b.share(uid, func(s *share) {
		for i := range s.steps {
			s.steps[i].NotYet = false
		}
	})
}

// Hold keeps the steps of a host back; an empty reason ends it.
func (b *Backend) Hold(uid types.UID, host, why string) {
	b.share(uid, func(s *share) {
		if s.hold == nil {
			s.hold = map[string]string{}
		}
		delete(s.hold, host)
		if why != "" {
			s.hold[host] = why
		}
	})
}

// Holding sets what of a storage exists and belongs to no host.
func (b *Backend) Holding(uid types.UID, names ...string) {
	b.share(uid, func(s *share) { s.holding = names })
}

// reachable is the fact that a storage without members depends on.
func (s share) reachable() metav1.Condition {
	if s.down != "" {
		return backend.Condition(v1alpha1.ConditionShareReachable, metav1.ConditionFalse, "ShareUnreachable", s.down)
	}
	return backend.Condition(v1alpha1.ConditionShareReachable, metav1.ConditionTrue, v1alpha1.ReasonShareReachable, "The share is reached.")
}
