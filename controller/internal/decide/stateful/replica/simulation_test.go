package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// tick is one pass of the simulated controller, and how far everything else moves in between.
const tick = 10 * time.Second

// copied is one identity in the simulated cluster: its claims, which a node keeps once they were scheduled, and its pod if it has one.
type copied struct {
	Replica
	// home keeps the claims; empty until the pod was scheduled.
	home string
	// ticks until the pod moves on: from pending to running, from running to ready, from ready to having the data, from terminating to gone.
	ticks int
	// broken pods run and never become ready.
	broken bool
	// tally, steady and late are what the status remembers.
	tally  Tally
	steady Steady
	late   Late
	// last: no other served with the data when it was given up.
	last bool
	// ready is for how long it really was ready, and jumps how often the clock jumped meanwhile.
	ready time.Duration
	jumps int
}

// machine is a node and its disks.
type machine struct {
	state  NodeState
	closed bool
	disk   DiskState
	// old: a controller that began anew has not looked at it for so many passes yet, and knows what failed from before.
	old int
	// beside: a device is missing that holds nothing of any replica, which nobody knows.
	beside bool
}

// open reports whether a pod can be made there.
func (m *machine) open() bool { return m.state == NodeFine && !m.closed && m.disk == DiskFine }

// world is a small model of the scheduler, the kubelets, the node controller, people and a workload that copies its data.
type world struct {
	t     *testing.T
	rand  *rand.Rand
	seed  uint64
	now   time.Time
	nodes map[string]*machine
	all   []*copied
	in    Input
	plan  *Plan
	// approval is the annotation that a person set.
	approval string
	policy   Policy
	// budget blocks every eviction.
	budget bool
	// mute: no replica tells when it has the data, as when nobody sets the condition.
	mute bool
	// full: no node would take a new replica.
	full bool
	// unrecorded claims may hold the data, and nobody knows.
	unrecorded int
	made       int
	// log is put into words only when it is read.
	log []func() string
}

// names of the nodes, ordered: a map has no order, and a seed must always tell the same story.
var names = []string{"n0", "n1", "n2", "n3", "n4"}

// chaos makes a world from a seed: nodes in any state, and identities in any state on them.
func chaos(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 4)), now: now, nodes: map[string]*machine{}}
	w.in = Input{
		Desired: w.rand.IntN(6), Revision: "new", Grace: 2 * time.Minute, NodeGrace: 2 * time.Minute, Surge: w.rand.IntN(3),
		Unavailable: w.rand.IntN(3), Declared: w.rand.IntN(2) == 0,
		MinReady: time.Duration(w.rand.IntN(3)) * 45 * time.Second, OnDelete: w.rand.IntN(5) == 0,
	}
	w.mute = w.in.Declared && w.rand.IntN(3) == 0
	w.policy = Policy{Scaled: w.rand.IntN(2) == 0, Replaced: w.rand.IntN(2) == 0, History: w.rand.IntN(4) - 1, MaxAge: time.Duration(w.rand.IntN(2)) * 10 * time.Minute}
	w.unrecorded = max(0, w.rand.IntN(6)-3)
	w.in.Discard = w.policy.Scaled
	for _, n := range names {
		w.nodes[n] = &machine{}
	}
	for range w.rand.IntN(8) {
		c := w.make()
		c.home = names[w.rand.IntN(len(names))]
		c.Revision = []string{"new", "old", "older"}[w.rand.IntN(3)]
		c.Phase = Phase(w.rand.IntN(3))
		if c.Phase == Running {
			c.Readiness = Readiness(w.rand.IntN(2))
		}
		c.Filled, c.Served = !w.mute && w.rand.IntN(2) == 0, w.in.Declared && w.rand.IntN(2) == 0
		c.InSync = c.Filled && c.Readiness == Ready
		c.ReadinessSince, c.Created, c.PendingSince = w.past(), w.past(), w.past()
		c.Terminating = w.rand.IntN(4) == 0
		c.ticks = w.rand.IntN(5)
		c.broken = w.rand.IntN(6) == 0
		c.Cost = w.rand.IntN(2)
	}
	return w
}

func (w *world) past() time.Time { return w.now.Add(-time.Duration(w.rand.IntN(300)) * time.Second) }

func (w *world) make() *copied {
	w.made++
	c := &copied{}
	c.Identity = fmt.Sprintf("%04x", w.made)
	c.Name, c.Created, c.Claims = c.Identity, w.now, ClaimsWhole
	w.all = append(w.all, c)
	w.start(c)
	return c
}

// start gives an identity a pod of the present template.
func (w *world) start(c *copied) {
	c.Phase, c.Readiness, c.Revision, c.Terminating, c.InSync = Pending, NotReady, w.in.Revision, false, false
	c.PendingSince, c.ReadinessSince, c.ticks = w.now, w.now, 1+w.rand.IntN(4)
	c.Patchable = w.rand.IntN(2) == 0
}

func (w *world) end(c *copied) {
	c.Phase, c.Readiness, c.Revision, c.Terminating, c.InSync = Absent, NotReady, "", false, false
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.story(60), "\n"))
}

// tell adds a line to the log.
func (w *world) tell(line func() string) {
	at := w.now.Format("04:05")
	w.log = append(w.log, func() string { return at + " " + line() })
}

// story is the end of the log in words.
func (w *world) story(lines int) []string {
	var out []string
	for _, line := range w.log[max(0, len(w.log)-lines):] {
		out = append(out, line())
	}
	return out
}

// input is what a controller would observe and remember.
func (w *world) input() Input {
	in := w.in
	in.Now, in.Replicas, in.Plan, in.Unrecorded = w.now, nil, w.plan, w.unrecorded
	silent := 0
	for _, n := range names {
		if w.nodes[n].state != NodeFine {
			silent++
		}
	}
	in.Blackout = silent*2 > len(names)
	for _, c := range w.all {
		r := c.Replica
		if r.Placed = c.home != ""; w.full {
			r.Crowded = "No node has room."
		}
		if m := w.nodes[c.home]; m != nil {
			m.show(&r)
		}
		r.Tally, r.Steady, r.Late = c.tally, c.steady.Next(in, r), c.late.Next(in, r)
		in.Replicas = append(in.Replicas, r)
	}
	return in
}

// show tells of a replica what is told of its node.
func (m *machine) show(r *Replica) {
	if r.Node, r.Disk = m.state, m.disk; m.beside && !r.Sound() && r.Disk == DiskFine {
		r.Disk = DiskFailed
	}
	if m.old > 0 && (r.Disk == DiskFailed || r.Disk == DiskLost) {
		r.Disk, r.Doubtful = DiskFine, true
	}
	if m.closed && m.state == NodeFine && (r.Phase == Absent || r.Phase == Pending) {
		r.Node = NodeClosed
	}
}

// pass is one pass of the controller: it remembers, asks people, decides until something is not blocked, acts, and records.
func (w *world) pass() {
	in := w.input()
	for i, c := range w.all {
		c.tally, c.steady, c.late = c.tally.Next(in, in.Replicas[i]), in.Replicas[i].Steady, in.Replicas[i].Late
	}
	in = w.input()
	w.plan = Offer(in, "uid", w.approval)
	in.Plan = w.plan
	in.Blocked = map[string]bool{}
	for range 3 {
		d := Decide(in)
		w.tell(func() string { return fmt.Sprintf("%s, %d wanted | %s", d, in.Desired, describe(in)) })
		if d.Action == Remove && !d.Force && w.budget {
			in.Blocked[d.Victim] = true
			continue
		}
		w.act(in, d)
		break
	}
	w.record()
}

// record writes what the controller records of identities, and deletes the claims that may go.
func (w *world) record() {
	in := w.input()
	sum := Summarize(in)
	for _, id := range sum.Full {
		c := w.of(id)
		// What a clock that jumps adds to one look is bounded.
		if !w.in.Declared && c.ready+time.Duration(c.jumps)*Look < w.in.MinReady {
			w.fail("%s is taken to have the data, and was ready for %s", id, c.ready)
		}
		c.Filled = true
	}
	for _, id := range sum.Served {
		w.of(id).Served = true
	}
	ids, _ := Dispose(in, w.policy)
	for _, id := range ids {
		w.mayDispose(w.of(id))
		w.all = slices.DeleteFunc(w.all, func(c *copied) bool { return c.Identity == id })
	}
}

func (w *world) of(id string) *copied {
	i := slices.IndexFunc(w.all, func(c *copied) bool { return c.Identity == id })
	if i < 0 {
		w.fail("%s is not there", id)
	}
	return w.all[i]
}

// act does what was decided, and checks that it may be.
func (w *world) act(in Input, d Decision) {
	switch d.Action {
	case Rest:
		w.in.Futile = 0
	case Create:
		w.create(d)
	case Update:
		w.update(in, d)
	case GiveUp, Remove:
		c := w.of(d.Identity)
		if d.Fate != "" && c.Fate == "" {
			w.mayGiveUp(in, d, c)
			if good, _ := w.serving(c); d.Spare {
				c.GivenUp, c.last = w.now, good == 0 && w.had(c)
			}
			c.Fate = d.Fate
		}
		if d.Action == Remove {
			w.remove(d, c)
		}
	}
}

func (w *world) create(d Decision) {
	if w.unrecorded > 0 && !slices.ContainsFunc(w.all, func(c *copied) bool { return c.Fate == "" && (c.Filled || c.Served || c.Readiness == Ready) }) {
		w.fail("a replica begins empty, and %d claims may hold the data", w.unrecorded)
	}
	if d.Identity == "" {
		if i := slices.IndexFunc(w.all, func(c *copied) bool {
			return c.Fate == "" && c.Phase == Absent && (c.home == "" || w.nodes[c.home].open())
		}); i >= 0 {
			w.fail("a replica is made, and %s could come back", w.all[i].Identity)
		}
		w.make()
		return
	}
	c := w.of(d.Identity)
	if c.Fate != "" || c.Phase != Absent {
		w.fail("%s is made again, and was given up or is there", d.Identity)
	}
	w.start(c)
}

func (w *world) update(in Input, d Decision) {
	c := w.of(d.Identity)
	if good, _ := w.serving(c); c.Phase != Running || c.Fate != "" || in.Surge > 0 || good < in.Desired-max(1, in.Unavailable) {
		w.fail("%s is changed in place, and %d of %d serve without it", c.Identity, good, in.Desired)
	}
	c.Revision, c.Readiness, c.ReadinessSince, c.InSync, c.ticks = in.Revision, NotReady, w.now, false, 1+w.rand.IntN(3)
}

func (w *world) remove(d Decision, c *copied) {
	if c.Phase == Absent || c.Terminating && !d.Force {
		w.fail("%s is removed, and is not there or is being deleted", d.Victim)
	}
	if d.Force && (c.home == "" || w.nodes[c.home].state != NodeGone || c.Fate == "") {
		w.fail("%s is removed by force, and somebody may end it", c.Identity)
	}
	if d.Reason == "ReplicaUnhealthy" {
		w.in.Futile++
	}
	if c.Terminating, c.ticks = true, 1+w.rand.IntN(3); d.Force || c.home == "" || c.Phase == Finished {
		w.end(c)
	}
}

// serving counts the identities beside one that serve and have the data, as the world knows it, and those that had it.
func (w *world) serving(beside *copied) (good, filled int) {
	for _, c := range w.all {
		if c.Fate != "" {
			continue
		}
		up := c.Phase == Running && c.Readiness == Ready && !c.Terminating && w.nodes[c.home].state == NodeFine && w.nodes[c.home].disk != DiskFailed
		has := up && (c.InSync || !w.in.Declared)
		if w.had(c) || has {
			filled++
		}
		if has && c != beside {
			good++
		}
	}
	return good, filled
}

// had reports whether a replica may have had the data: it told so, or it served and none ever told.
func (w *world) had(c *copied) bool {
	told := slices.ContainsFunc(w.all, func(c *copied) bool { return c.Fate == "" && c.Filled })
	return c.Filled || c.Served && w.in.Declared && !told
}

// mayGiveUp holds what is promised of data: no majority of those that have it is given up unapproved, no second one before the first is
// replaced, and no last one.
func (w *world) mayGiveUp(in Input, d Decision, c *copied) {
	if in.Desired == 0 && !in.Discard {
		w.fail("%s is given up, and its claims stay: it could come back", c.Identity)
	}
	if !w.had(c) || w.plan.allows(c.Identity) {
		return
	}
	good, filled := w.serving(c)
	switch d.Fate {
	case Scaled:
		if in.Desired > 0 && good == 0 {
			w.fail("%s may be the last copy, and is scaled away", c.Identity)
		}
		if Summarize(in).Live <= in.Desired {
			w.fail("%s is scaled away, and not one too many", c.Identity)
		}
	case Rolled:
		if good == 0 || good < in.Desired {
			w.fail("%s is rolled over, and %d of %d serve without it", c.Identity, good, in.Desired)
		}
	case Replaced:
		w.mayReplace(in, c, good, filled)
	}
}

func (w *world) mayReplace(in Input, c *copied, good, filled int) {
	if good == 0 || good*2 < filled {
		w.fail("%s is given up, and %d of %d serve", c.Identity, good, filled)
	}
	if filled < in.Desired {
		w.fail("%s is given up before the one before is replaced: %d of %d had the data", c.Identity, filled, in.Desired)
	}
	if h, _ := in.Health(in.Replicas[slices.Index(w.all, c)]); h > Stuck {
		w.fail("%s is given up, and may serve again", c.Identity)
	}
	if w.full {
		w.fail("%s is given up, and no node would take another one", c.Identity)
	}
	if c.Phase == Absent && w.nodes[c.home].open() {
		w.fail("%s is given up, and its pod could be made again", c.Identity)
	}
	if w.nodes[c.home].disk == DiskSuspended {
		w.fail("%s is given up under maintenance", c.Identity)
	}
}

// mayDispose holds that at most the claims that the policy names are deleted.
func (w *world) mayDispose(c *copied) {
	good, _ := w.serving(nil)
	switch {
	case c.Fate == "":
		w.fail("claims of %s are deleted, and it was not given up", c.Identity)
	case c.Phase != Absent:
		w.fail("claims of %s are deleted under its pod", c.Identity)
	case (c.Fate == Scaled && !w.policy.Scaled || c.Fate != Scaled && !w.policy.Replaced) && !w.expired(c):
		w.fail("claims of %s are deleted against the policy", c.Identity)
	case (c.Fate != Scaled || !w.policy.Scaled) && good < max(1, w.in.Desired):
		w.fail("claims of %s are deleted, and %d of %d serve", c.Identity, good, w.in.Desired)
	}
}

// expired reports whether the policy keeps no history of an identity. What may be the only copy is no history.
func (w *world) expired(c *copied) bool {
	younger := 0
	for _, o := range w.all {
		if o != c && o.Fate != "" && !o.GivenUp.Before(c.GivenUp) {
			younger++
		}
	}
	old := w.policy.History >= 0 && younger >= w.policy.History || w.policy.MaxAge > 0 && w.now.Sub(c.GivenUp) >= w.policy.MaxAge
	return old && !c.GivenUp.IsZero() && !c.last
}

func describe(in Input) string {
	var out []string
	for _, r := range in.Replicas {
		h, _ := in.Health(r)
		out = append(out, fmt.Sprintf("%s/%s%s:h%d/n%d/d%d/p%d/t%t/f%t/s%t/%s", r.Name, r.Revision, r.Fate, h, r.Node, r.Disk, r.Phase, r.Terminating, r.Filled, r.InSync, r.Away))
	}
	return strings.Join(out, " ")
}
