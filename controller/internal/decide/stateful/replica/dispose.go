package replica

import (
	"cmp"
	"slices"
	"time"
)

// Policy says which claims of identities that were given up are deleted.
type Policy struct {
	// Scaled claims go once their pod has ended, Replaced ones (those of rolled replicas, too) once the replacement has the data as well.
	Scaled, Replaced bool
	// History is how many identities keep their claims otherwise, the last ones; all do when it is negative. MaxAge is for how long they do; for ever
	// when it is 0. Neither counts for what has no Replica.GivenUp: it may be the only copy.
	History int
	MaxAge  time.Duration
}

// Dispose returns the identities whose claims the policy deletes now, and when there may be more even if nothing happens; zero when there may
// not. What was not given up on record is never among them, however long it was not seen. Neither is, for its age or for the history, what may be the only
// copy: one that was given up while no other served with the data, and any while fewer than wanted have it.
func Dispose(in Input, p Policy) (ids []string, after time.Duration) {
	whole := in.Desired > 0 && Summarize(in).Whole(in.Desired)
	var kept []Replica
	for _, r := range in.Replicas {
		if r.Fate == "" || r.Phase != Absent {
			continue
		}
		switch now, ever := p.names(r, whole); {
		case now:
			ids = append(ids, r.Identity)
		case !ever && !r.GivenUp.IsZero():
			kept = append(kept, r)
		}
	}
	if !whole {
		return ids, 0
	}
	old, after := p.old(in.Now, kept)
	return append(ids, old...), after
}

// names reports whether a policy deletes the claims of a fate now, and whether it does so at all.
func (p Policy) names(r Replica, whole bool) (now, ever bool) {
	if r.Fate == Scaled {
		return p.Scaled, p.Scaled
	}
	return p.Replaced && whole, p.Replaced
}

// old returns the identities that are kept no longer, and when the next one is not.
func (p Policy) old(now time.Time, kept []Replica) (ids []string, after time.Duration) {
	slices.SortFunc(kept, func(a, b Replica) int {
		return cmp.Or(b.GivenUp.Compare(a.GivenUp), cmp.Compare(a.Identity, b.Identity))
	})
	for i, r := range kept {
		rest := left(now, r.GivenUp, p.MaxAge)
		switch {
		case p.History >= 0 && i >= p.History, p.MaxAge > 0 && rest <= 0:
			ids = append(ids, r.Identity)
		case p.MaxAge > 0:
			after = soonest(after, rest)
		}
	}
	return ids, after
}
