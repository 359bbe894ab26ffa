package replica

import (
	"cmp"
	"slices"
	"time"
)

// judged is a replica with its health.
type judged struct {
	Replica
	health Health
	old    bool
}

// view is an input as the rules see it.
type view struct {
	Input
	// live are the replicas that stay or may be removed, the ones that are missed least first.
	live []judged
	// leaving is true while a replica on a node that answers is being deleted.
	leaving bool
	// change is when a judgement changes though nothing happens; zero when none does.
	change time.Duration
}

func look(in Input) view {
	v := view{Input: in}
	for _, r := range in.Replicas {
		if r.Terminating {
			// A node that does not answer never confirms the end of a pod: waiting for it would take for ever.
			v.leaving = v.leaving || r.Node == NodeFine
			continue
		}
		h, change := in.Health(r)
		v.live = append(v.live, judged{Replica: r, health: h, old: r.Revision != in.Revision})
		v.change = soonest(v.change, change)
	}
	slices.SortFunc(v.live, missed)
	return v
}

// missed orders replicas by how much they are missed: by health, then those of an old template, then the youngest, which holds the
// least data.
func missed(a, b judged) int {
	return cmp.Or(
		cmp.Compare(a.health, b.health),
		compareBool(b.old, a.old),
		b.Created.Compare(a.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// count tells how many live replicas a test holds for.
func (v view) count(test func(judged) bool) int {
	n := 0
	for _, r := range v.live {
		if test(r) {
			n++
		}
	}
	return n
}

// first finds the live replica that is missed least of those that a test holds for.
func (v view) first(test func(judged) bool) (judged, bool) {
	i := slices.IndexFunc(v.live, test)
	if i < 0 {
		return judged{}, false
	}
	return v.live[i], true
}

func isOld(r judged) bool { return r.old }

func is(h Health) func(judged) bool { return func(r judged) bool { return r.health == h } }

// serves tells whether a replica is ready, long enough or not.
func (r judged) serves() bool { return r.health >= Young }

// rolling is true while replicas of an old template are to be replaced.
func (v view) rolling() bool { return !v.OnDelete && v.Desired > 0 && v.count(isOld) > 0 }

// limit is how many replicas there may be: a change of the template makes the new replica before the old one goes.
func (v view) limit() int {
	if v.rolling() {
		return v.Desired + 1
	}
	return v.Desired
}
