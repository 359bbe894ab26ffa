package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// harms are what a controller does not do: to nodes, disks, pods, clocks, budgets, or in a person's mind.
var harms = []func(w *world, n string, m *machine){
	func(_ *world, _ string, m *machine) { m.state = NodeUnreachable },
	func(_ *world, _ string, m *machine) { m.state, m.closed = NodeFine, false },
	func(_ *world, _ string, m *machine) { m.state, m.closed = NodeFine, false },
	func(_ *world, _ string, m *machine) { m.state, m.closed = NodeFine, false },
	func(_ *world, _ string, m *machine) { m.state = NodeGone },
	func(_ *world, _ string, m *machine) { m.state = NodeUnready },
	func(w *world, n string, _ *machine) { w.drain(n) },
	func(_ *world, _ string, m *machine) { m.disk = DiskFailed },
	func(_ *world, _ string, m *machine) { m.disk = DiskFine },
	func(_ *world, _ string, m *machine) { m.disk = DiskFine },
	func(_ *world, _ string, m *machine) { m.beside = !m.beside },
	func(w *world, _ string, m *machine) { m.disk = []DiskState{DiskLost, DiskSuspended}[w.rand.IntN(2)] },
	func(w *world, _ string, _ *machine) { w.in.Desired = w.rand.IntN(6) },
	func(w *world, _ string, _ *machine) { w.in.Revision = fmt.Sprintf("change-%d", w.rand.IntN(3)) },
	func(w *world, _ string, _ *machine) { w.budget = !w.budget },
	func(w *world, _ string, _ *machine) { w.full = !w.full },
	func(w *world, _ string, _ *machine) {
		w.now = w.now.Add(time.Duration(w.rand.IntN(7200)-3600) * time.Second)
		for _, c := range w.all {
			c.jumps++
		}
	},
	func(w *world, n string, _ *machine) { w.reboot(n) },
	func(w *world, _ string, _ *machine) { w.restart() },
	func(w *world, _ string, _ *machine) { w.kill() },
	func(w *world, _ string, _ *machine) {
		if w.plan != nil {
			w.approval = w.plan.Digest
		}
	},
}

// harm has one of them happen, to a node if it is about one; the first node is never harmed.
func (w *world) harm() {
	n := names[1+w.rand.IntN(len(names)-1)]
	what := w.rand.IntN(len(harms))
	harms[what](w, n, w.nodes[n])
	is := *w.nodes[n]
	w.tell(func() string { return fmt.Sprintf("harm %d: %s is %+v", what, n, is) })
}

// drain closes a node and evicts what runs there, as far as the budget lets it.
func (w *world) drain(n string) {
	w.nodes[n].closed = true
	for _, c := range w.all {
		if c.home == n && c.Phase != Absent && !w.budget {
			c.Terminating, c.ticks = true, 1
		}
	}
}

// restart begins the controller anew: it knows of every disk what was told before, until it has looked.
func (w *world) restart() {
	for _, n := range names {
		w.nodes[n].old = w.rand.IntN(4)
	}
}

// reboot ends the pods of a node, whose objects stay.
func (w *world) reboot(n string) {
	for _, c := range w.all {
		if c.home == n && c.Phase == Running {
			c.Phase, c.Readiness, c.InSync = Finished, NotReady, false
		}
	}
}

// kill has a person delete a pod.
func (w *world) kill() {
	if len(w.all) > 0 {
		if c := w.all[w.rand.IntN(len(w.all))]; c.Phase != Absent {
			c.Terminating, c.ticks = true, 1
		}
	}
}

// step lets everything but the controller move.
func (w *world) step() {
	w.now = w.now.Add(tick)
	for _, m := range w.nodes {
		m.old = max(m.old-1, 0)
	}
	for _, c := range w.all {
		if c.ready += tick; c.Phase != Running || c.Readiness != Ready {
			c.ready, c.jumps = 0, 0
		}
		switch {
		case c.Phase == Absent:
		case c.home == "":
			if c.Terminating {
				w.end(c)
			} else {
				w.schedule(c)
			}
		case w.nodes[c.home].state == NodeGone:
			// Kubernetes removes pods of nodes that do not exist.
			if c.Terminating {
				w.end(c)
			}
		case w.nodes[c.home].state != NodeFine:
			if c.Phase == Running && c.Readiness == Ready {
				c.Readiness, c.ReadinessSince = NotReady, w.now
			}
		default:
			w.kubelet(c)
		}
	}
}

func (w *world) kubelet(c *copied) {
	if c.ticks--; c.ticks > 0 {
		return
	}
	m := w.nodes[c.home]
	switch {
	case c.Terminating:
		w.end(c)
	case m.disk == DiskFailed || m.disk == DiskLost:
		if c.Readiness == Ready {
			c.Readiness, c.ReadinessSince, c.InSync = NotReady, w.now, false
		}
	case c.Phase == Pending:
		if !m.closed {
			c.Phase, c.Readiness, c.ReadinessSince, c.ticks = Running, NotReady, w.now, 1+w.rand.IntN(5)
		}
	case c.Phase == Running:
		w.run(c)
	}
}

// run lets a pod that runs become ready, and then get the data.
func (w *world) run(c *copied) {
	switch {
	case c.Readiness == Ready && !c.InSync:
		c.InSync = !w.mute && (w.had(c) || w.source(c))
	case c.Readiness != Ready && !c.broken:
		c.Readiness, c.ReadinessSince, c.ticks = Ready, w.now, 1+w.rand.IntN(3)
	}
}

// source reports whether a replica can get the data: from another that has it, or because nobody ever had any.
func (w *world) source(c *copied) bool {
	good, filled := w.serving(c)
	return good > 0 || filled == 0
}

func (w *world) schedule(c *copied) {
	if w.full {
		return
	}
	fit := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return !w.nodes[n].open()
	})
	if len(fit) > 0 {
		c.home = fit[w.rand.IntN(len(fit))]
	}
}

// settled is the fixed point: as many as are wanted are available and of the template, and nothing is to be done.
func (w *world) settled() bool {
	in := w.input()
	s := Summarize(in)
	if in.Desired == 0 && !in.Discard {
		return Decide(in).Action == Rest && s.Pods == 0
	}
	updated := s.Updated == in.Desired || in.OnDelete
	return Decide(in).Action == Rest && s.Live == in.Desired && s.Whole(in.Desired) && updated
}

// TestSimulation runs the controller in worlds that began in any state, and were harmed for a while, until nothing is left to do.
// Nodes that are silent and disks that failed stay so, unless they are so many that it could be the network: what is on them must be replaced. A
// person approves what is asked for.
func TestSimulation(t *testing.T) {
	const (
		worlds = 1000
		harm   = 60
		// bound is generous: six replicas, each replaced twice after its grace and rolled over once, with waits in between.
		bound = 400
	)
	longest := 0
	for seed := range uint64(worlds) {
		w := chaos(t, seed)
		for range harm {
			w.pass()
			w.step()
			if w.rand.IntN(4) == 0 {
				w.harm()
			}
		}
		w.calm()
		passes := 0
		for ; !w.settled(); passes++ {
			if passes == bound {
				w.fail("not settled after %d passes: %s, plan %+v", bound, describe(w.input()), w.plan)
			}
			if w.plan != nil && !w.plan.Approved {
				w.approval = w.plan.Digest
			}
			w.pass()
			w.step()
		}
		longest = max(longest, passes)
		for range 20 {
			if d := Decide(w.input()); d.Action != Rest {
				w.fail("it does not stay settled: %s", d)
			}
			w.pass()
			w.step()
		}
	}
	t.Logf("%d worlds, the longest took %d passes", worlds, longest)
}

// calm ends what keeps a world from coming to rest for ever, or for hours: a budget, maintenance, a blackout, a clock that went back.
func (w *world) calm() {
	w.full = false
	w.budget, w.mute, w.unrecorded = false, false, 0
	for _, n := range names {
		if w.nodes[n].disk == DiskSuspended {
			w.nodes[n].disk = DiskFine
		}
		if w.input().Blackout {
			w.nodes[n].state = NodeFine
		}
	}
	for _, c := range w.all {
		c.jumps++
		for _, at := range []time.Time{c.ReadinessSince, c.PendingSince} {
			if at.After(w.now) {
				w.now = at
			}
		}
		c.broken = c.broken && !c.Filled
	}
}

// TestSimulation_isRepeatable: the same world always takes the same way.
func TestSimulation_isRepeatable(t *testing.T) {
	run := func() []string {
		w := chaos(t, 7)
		for range 100 {
			w.pass()
			w.step()
			w.harm()
		}
		return w.story(len(w.log))
	}
	if !slices.Equal(run(), run()) {
		t.Error("two runs of one world differ")
	}
}
