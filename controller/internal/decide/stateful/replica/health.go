package replica

import "time"

// Health of a replica. They are ordered from the one that is missed least to the one that is missed most.
type Health int

// Healths.
const (
	// Lost: its node or its disks were out of reach for too long, or its data is gone.
	Lost Health = iota
	// Unhealthy: it has not been ready for too long.
	Unhealthy
	// Stuck: it has been pending for too long.
	Stuck
	// Waiting: it has no pod that runs, and will have one.
	Waiting
	// Starting: it runs and is not ready, which it may be for a while.
	Starting
	// Young: it is ready, and not long enough to count.
	Young
	// Available: it has been ready for long enough.
	Available
)

const (
	// maxDoublings bounds how much longer a replica is waited for when replacing others did not help.
	maxDoublings = 4
	// Quarantine is how long a node that does not exist is waited for at least: one that is deleted and registered again comes back in this time,
	// and Kubernetes itself removes no pod of it before 40 s.
	Quarantine = time.Minute
	// Look is how soon a replica that is out of reach is looked at again, at the latest.
	Look = 30 * time.Second
)

// patience is how long a replica may be not ready.
func (in Input) patience() time.Duration { return in.Grace << min(max(in.Futile, 0), maxDoublings) }

// limit is how long a replica may be out of reach.
func (in Input) limit(r Replica) time.Duration {
	if r.Node == NodeGone {
		return max(in.NodeGrace, Quarantine)
	}
	return in.NodeGrace
}

// Health judges a replica, and tells when the judgement changes even if nothing happens; zero when it does not.
func (in Input) Health(r Replica) (h Health, change time.Duration) {
	switch {
	case r.Disk == DiskLost:
		return Lost, 0
	case r.Claims >= ClaimsMissing && r.Filled && r.Phase == Absent && r.Occupied == "":
		return Lost, 0
	case r.OutOfReach():
		return in.away(r)
	}
	h, change = in.healthInReach(r)
	if r.Away > 0 || r.Doubtful {
		change = soonest(change, Look)
	}
	return h, change
}

// away judges a replica that is out of reach: what its pod says about being ready is outdated.
func (in Input) away(r Replica) (Health, time.Duration) {
	h := Starting
	if r.Phase != Running || r.Terminating {
		h = Waiting
	}
	if in.Blackout && r.Disk != DiskFailed || r.Disk == DiskSuspended {
		return h, Look
	}
	if left := in.limit(r) - r.Away; left > 0 {
		return h, min(left, Look)
	}
	return Lost, 0
}

func (in Input) healthInReach(r Replica) (h Health, change time.Duration) {
	switch {
	case r.Terminating || r.Phase == Absent || r.Phase == Finished && r.Claims != NoClaims:
		return Waiting, 0
	case r.Phase == Finished:
		return Lost, 0
	case r.Phase == Pending:
		return in.late(r, Waiting, Stuck)
	case r.Readiness == Ready:
		if left := in.MinReady - r.Steady.For; left > 0 {
			return Young, min(left, Look)
		}
		return Available, 0
	}
	return in.late(r, Starting, Unhealthy)
}

// left is how much of a span that began at a time is left; not positive when none is.
func left(now, since time.Time, span time.Duration) time.Duration { return since.Add(span).Sub(now) }

// soonest of two spans of which zero means never.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
