package harborcluster

import (
	"time"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// retry is when it is looked again for what cannot be watched: Secrets, which the controller may not list, and its own rights.
const retry = 15 * time.Second

// pass is when it is looked at again in any case: not everything that can happen to what operators make is watched.
const pass = 10 * time.Minute

// scope holds the facts of one reconcile. The parts are worked on at the same time: each writes its own elements only.
type scope struct {
	// before is the HarborCluster as it was read, cluster the one that is looked at.
	before, cluster *v1alpha1.HarborCluster
	// faults of the spec. Nothing is written to children while there is one.
	faults []harbor.Fault
	// states of the parts.
	states [harbor.Count]harbor.State
	// again is true for parts that wait for something that cannot be watched.
	again [harbor.Count]bool
	// after is when a part must be looked at again; zero when it need not.
	after [harbor.Count]time.Duration
	// to says how Harbor reaches its services.
	to harbor.Connections
	// serve is true when Harbor itself is applied in this pass.
	serve bool
	// configuration is the state of the settings; zero when there are none.
	configuration harbor.State
	// certificates is the state of what signs Harbor's certificates.
	certificates harbor.State
	// blind says why the HarborCluster could not be looked at; nil when it could. The status says nothing new of the parts then.
	blind error
	// soonest is when the HarborCluster must be looked at again; zero when it need not.
	soonest time.Duration
}

func newScope(c *v1alpha1.HarborCluster) *scope { return &scope{before: c, cluster: c.DeepCopy()} }

// act reports whether children may be written.
func (s *scope) act() bool { return len(s.faults) == 0 }

// fault returns what is wrong with the spec of a part; nil when nothing is.
func (s *scope) fault(p harbor.Part) *harbor.Fault {
	for i := range s.faults {
		if s.faults[i].Part == p {
			return &s.faults[i]
		}
	}
	return nil
}

// servicesReady reports whether everything that Harbor needs works.
func (s *scope) servicesReady() bool {
	for _, p := range []harbor.Part{harbor.Storage, harbor.Database, harbor.Cache} {
		if !s.states[p].Ready() {
			return false
		}
	}
	return true
}

// within notes that the HarborCluster must be looked at again after a while.
func (s *scope) within(d time.Duration) {
	if s.soonest == 0 || d < s.soonest {
		s.soonest = d
	}
}

// next returns when the HarborCluster is looked at again even if nothing happens.
func (s *scope) next() time.Duration {
	s.within(pass)
	for p, again := range s.again {
		if again {
			s.within(retry)
		}
		if s.after[p] > 0 {
			s.within(s.after[p])
		}
	}
	return s.soonest
}
