package replica

import "time"

// Steady is for how long a replica was seen ready without a break. It is counted from one look to the next, so that a clock that is ahead or jumps
// makes no replica available, and none is taken to have the data for it.
type Steady struct {
	// Since is when its present time of being ready began, as its pod tells. It is no more than a name of that time: another one counts anew.
	Since time.Time
	// For is in whole seconds, and no more than Input.MinReady.
	For time.Duration
	// Looked is when it was looked at last; zero when For needs to grow no more.
	Looked time.Time
}

// Next is the count after another look; zero when there is nothing to remember. While nobody can tell how the replica is, it stays as it is.
func (s Steady) Next(in Input, r Replica) Steady {
	if in.MinReady <= 0 || r.Phase != Running || r.Readiness == NotReady || r.Terminating {
		return Steady{}
	}
	now := in.Now.Truncate(time.Second)
	out := r.OutOfReach()
	if !out && !s.Since.Equal(r.ReadinessSince) {
		return Steady{Since: r.ReadinessSince, Looked: now}
	}
	if s.For >= in.MinReady {
		return Steady{Since: s.Since, For: in.MinReady}
	}
	if !out && !s.Looked.IsZero() {
		s.For = min(s.For+min(max(now.Sub(s.Looked), 0), Look), in.MinReady)
	}
	if s.Looked = now; s.For >= in.MinReady {
		s.Looked = time.Time{}
	}
	return s
}
