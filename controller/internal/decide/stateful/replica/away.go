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
