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
	// old: its pod was made from another template than that of the spec.
	old bool
	// synced: it serves, and has the data.
	synced bool
}

// view is an input as the rules see it.
type view struct {
	Input
	// live are the identities that were not given up, the ones that are missed least first.
	live []judged
	// fated are those that were given up and have a pod still.
	fated []judged
	// leaving is true while a replica that was given up is ending on a node that answers.
	leaving bool
	// mute: replicas tell when they have the data, and none that was not given up ever did.
	mute bool
	// change is when a judgement changes even if nothing happens; zero when none does.
	change time.Duration
}

func look(in Input) view {
	v := view{Input: in, mute: in.silent()}
	for _, r := range in.Replicas {
		r.Filled = v.holds(r)
		one := v.judge(r)
		switch {
		case r.Fate != "" && r.Phase != Absent:
			v.fated = append(v.fated, one)
			fallthrough
		case r.Claims == NoClaims && r.Terminating:
			// A node that does not answer never confirms the end of a pod: it is waited for no longer than for a replica that stays.
			v.leaving = v.leaving || r.Terminating && one.health != Lost && (r.Node == NodeFine || !in.Blackout)
		case r.Fate == "" && (r.Claims != NoClaims || r.Phase != Absent):
			v.live = append(v.live, one)
		}
	}
	slices.SortFunc(v.live, missed)
	slices.SortFunc(v.fated, missed)
	return v
}

// silent reports whether replicas tell when they have the data, and none that was not given up ever did.
func (in Input) silent() bool {
	return in.Declared && !slices.ContainsFunc(in.Replicas, func(r Replica) bool { return r.Fate == "" && r.Filled })
}

// holds reports whether a replica may have the data. Nobody knows which of those that never told has it while none ever did: any that served may be the
// only one.
func (v view) holds(r Replica) bool { return r.Filled || r.Served && (v.mute || !v.Declared) }

func (v *view) judge(r Replica) judged {
	h, change := v.Health(r)
	v.change = soonest(v.change, change)
	one := judged{Replica: r, health: h, old: r.Revision != "" && r.Revision != v.Revision}
	one.synced = h == Available
	if v.Declared {
		one.synced = h >= Young && r.InSync
	}
	one.synced = one.synced && !r.Doubtful
	return one
}

// missed orders replicas by how much they are missed: by health, then those without the data, those of an old template, those that cost less,
// and the youngest.
func missed(a, b judged) int {
	return cmp.Or(
		cmp.Compare(a.health, b.health),
		compareBool(a.synced, b.synced),
		compareBool(a.Filled, b.Filled),
		compareBool(b.old, a.old),
		cmp.Compare(a.Cost, b.Cost),
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

// last finds the live replica that is missed most of those that a test holds for.
func (v view) last(test func(judged) bool) (judged, bool) {
	for _, r := range slices.Backward(v.live) {
		if test(r) {
			return r, true
		}
	}
	return judged{}, false
}

// others tells how many live replicas beside one a test holds for.
func (v view) others(than judged, test func(judged) bool) int {
	return v.count(func(r judged) bool { return r.Identity != than.Identity && test(r) })
}

func isOld(r judged) bool    { return r.old }
func isSynced(r judged) bool { return r.synced }

func is(h Health) func(judged) bool { return func(r judged) bool { return r.health == h } }

// serves reports whether a replica is ready, long enough or not.
func (r judged) serves() bool { return r.health >= Young && !r.Doubtful }

// whole reports whether a replica is available and has the data.
func (r judged) whole() bool { return r.health == Available && r.synced }
