package replica

import "time"

// Tally is for how long a replica was seen out of reach. It is counted from one look to the next, so that neither a clock that jumps nor a
// controller that was down adds more than a look's worth, and a node that comes and goes adds up.
type Tally struct {
	// Away in whole seconds.
	Away time.Duration
	// Looked is when it was looked at last.
	Looked time.Time
}

// Next is the tally after another look. Time in reach is taken off as fast as time out of reach is added; zero when nothing is left to remember.
// While nobody is given up for it, as in a blackout, it stays as it is.
func (t Tally) Next(in Input, r Replica) Tally {
	now := in.Now.Truncate(time.Second)
	step := time.Duration(0)
	if !t.Looked.IsZero() {
		step = min(max(now.Sub(t.Looked), 0), Look)
	}
	out := r.OutOfReach()
	switch {
	case out && (in.Blackout && r.Disk != DiskFailed || r.Disk == DiskSuspended):
	case out:
		t.Away = min(t.Away+step, 48*time.Hour)
	default:
		t.Away -= step
		if t.Away <= 0 {
			return Tally{}
		}
	}
	t.Looked = now
	return t
}

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

// Late is for how long a replica that could be ready was seen not to be, without a break. It is counted from one look to the next, so that a clock that is ahead
// or jumps takes no replica that starts for one that will never be ready.
type Late struct {
	// Since is when its present time of not being ready began, as its pod tells. It is no more than a name of that time: a later one counts anew.
	Since time.Time
	// For is in whole seconds, and no more than the patience with it.
	For time.Duration
	// Looked is when it was looked at last; zero when For needs to grow no more.
	Looked time.Time
}

// Next is the count after another look; zero when there is nothing to remember. While it is out of reach, it stays as it is.
func (l Late) Next(in Input, r Replica) Late {
	since, starts := r.starts()
	out := r.OutOfReach()
	if !starts || out && l.Since.IsZero() {
		return Late{}
	}
	now := in.Now.Truncate(time.Second)
	if !out && (l.Since.IsZero() || since.After(l.Since)) {
		return Late{Since: since, Looked: now}
	}
	if l.For >= in.patience() {
		return Late{Since: l.Since, For: l.For}
	}
	if !out && !l.Looked.IsZero() {
		l.For = min(l.For+min(max(now.Sub(l.Looked), 0), Look), in.patience())
	}
	if l.Looked = now; l.For >= in.patience() {
		l.Looked = time.Time{}
	}
	return l
}

// starts reports whether a replica has a pod that is on its way to be ready, and since when.
func (r Replica) starts() (since time.Time, ok bool) {
	switch {
	case r.Terminating:
	case r.Phase == Pending:
		return r.PendingSince, true
	case r.Phase == Running && r.Readiness == NotReady:
		return r.ReadinessSince, true
	}
	return time.Time{}, false
}

// late tells how much patience is left with a replica that is not ready, and when to look again.
func (in Input) late(r Replica, waits, gone Health) (h Health, change time.Duration) {
	if left := in.patience() - r.Late.For; left > 0 {
		return waits, min(left, Look)
	}
	return gone, 0
}
