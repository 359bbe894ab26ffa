package replica

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// tick is one pass of the simulated controller, and how far everything else moves in between.
const tick = 10 * time.Second

// pod is a replica in the simulated cluster.
type pod struct {
	Replica
	node string // "" until it is scheduled
	// ticks until the pod moves on: from pending to running, from running to ready, from terminating to gone.
	ticks int
	// broken pods run and never become ready.
	broken bool
}

// world is a small model of the scheduler, the kubelets and the node controller.
type world struct {
	t     *testing.T
	rand  *rand.Rand
	seed  uint64
	now   time.Time
	nodes map[string]*NodeState
	since map[string]time.Time
	pods  []*pod
	in    Input
	made  int
	seen  map[string]bool
	log   []string
}

// names of the nodes, ordered: a map has no order, and a seed must always tell the same story.
var names = []string{"n0", "n1", "n2", "n3", "n4"}

// chaos makes a world from a seed: nodes that are fine, silent or gone, and pods in any state on them.
func chaos(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 4)), now: now,
		nodes: map[string]*NodeState{}, since: map[string]time.Time{}, seen: map[string]bool{},
	}
	w.in = Input{
		Desired: w.rand.IntN(7), Revision: "new", Grace: 2 * time.Minute, NodeGrace: 2 * time.Minute,
		MinReady: time.Duration(w.rand.IntN(3)) * 15 * time.Second, OnDelete: w.rand.IntN(5) == 0,
	}
	for i, n := range names {
		state := NodeFine
		if i > 0 && w.rand.IntN(4) == 0 {
			state = NodeUnreachable
		}
		w.nodes[n], w.since[n] = &state, w.past()
	}
	for range w.rand.IntN(10) {
		p := w.make(w.identity())
		p.node = names[w.rand.IntN(len(names))]
		p.Revision = []string{"new", "old", "older"}[w.rand.IntN(3)]
		p.Phase = Phase(w.rand.IntN(3))
		p.Readiness = NotReady
		if p.Phase == Running {
			p.Readiness = Readiness(w.rand.IntN(3))
		}
		p.ReadinessSince, p.Created = w.past(), w.past()
		p.Terminating = w.rand.IntN(4) == 0
		p.ticks = w.rand.IntN(5)
		p.broken = w.rand.IntN(6) == 0
		if p.Phase == Pending && w.rand.IntN(2) == 0 {
			p.node = ""
		}
	}
	return w
}

func (w *world) past() time.Time { return w.now.Add(-time.Duration(w.rand.IntN(300)) * time.Second) }

func (w *world) identity() string {
	w.made++
	return fmt.Sprintf("%04x", w.made)
}

func (w *world) make(identity string) *pod {
	if w.seen[identity] {
		w.fail("identity %s is used twice", identity)
	}
	w.seen[identity] = true
	p := &pod{ticks: 1 + w.rand.IntN(4)}
	p.Name, p.Identity, p.Revision, p.Created, p.ReadinessSince = identity, identity, w.in.Revision, w.now, w.now
	w.pods = append(w.pods, p)
	return p
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

// node returns how the node of a pod is.
func (w *world) node(p *pod) (NodeState, time.Time) {
	if p.node == "" {
		return NodeFine, w.now
	}
	return *w.nodes[p.node], w.since[p.node]
}

// input is what a controller would observe.
func (w *world) input() Input {
	in := w.in
	in.Now, in.Replicas = w.now, nil
	silent := 0
	for _, n := range names {
		if *w.nodes[n] == NodeUnreachable {
			silent++
		}
	}
	in.Blackout = silent*2 > len(names)
	for _, p := range w.pods {
		r := p.Replica
		r.Node, r.NodeSince = w.node(p)
		in.Replicas = append(in.Replicas, r)
	}
	return in
}

// harm has a node fall silent, come back or go for good, or the user change his mind.
func (w *world) harm() {
	n := names[1+w.rand.IntN(len(names)-1)]
	switch w.rand.IntN(6) {
	case 0:
		*w.nodes[n], w.since[n] = NodeUnreachable, w.now
	case 1, 2:
		*w.nodes[n], w.since[n] = NodeFine, w.now
	case 3:
		*w.nodes[n], w.since[n] = NodeGone, w.now
	case 4:
		w.in.Desired = w.rand.IntN(7)
	case 5:
		w.in.Revision = fmt.Sprintf("change-%d", w.rand.IntN(3))
	}
	w.log = append(w.log, fmt.Sprintf("%s harm: %s is %d, %d of %s are wanted", w.now.Format("04:05"), n, *w.nodes[n], w.in.Desired, w.in.Revision))
}

// step lets everything but the controller move.
func (w *world) step() {
	w.now = w.now.Add(tick)
	for _, p := range slices.Clone(w.pods) {
		if p.node == "" {
			if p.Terminating {
				w.drop(p)
			} else {
				w.schedule(p)
			}
			continue
		}
		switch *w.nodes[p.node] {
		case NodeGone:
			if p.Terminating {
				w.drop(p)
			}
		case NodeUnreachable:
			if p.Phase == Running && p.Readiness == Ready {
				p.Readiness, p.ReadinessSince = NotReady, w.now
			}
		default:
			w.kubelet(p)
		}
	}
}

func (w *world) kubelet(p *pod) {
	if p.ticks--; p.ticks > 0 {
		return
	}
	switch {
	case p.Terminating:
		w.drop(p)
	case p.Phase == Pending:
		p.Phase, p.Readiness, p.ReadinessSince, p.ticks = Running, NotReady, w.now, 1+w.rand.IntN(5)
	case p.Phase == Running && !p.broken && p.Readiness != Ready:
		p.Readiness, p.ReadinessSince = Ready, w.now
	}
}

func (w *world) schedule(p *pod) {
	fine := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return *w.nodes[n] != NodeFine })
	p.node = fine[w.rand.IntN(len(fine))]
}

func (w *world) drop(p *pod) {
	w.pods = slices.DeleteFunc(w.pods, func(other *pod) bool { return other == p })
}

// act does what was decided, and checks that it may be.
func (w *world) act(d Decision) {
	in := w.input()
	if d.Action == Rest {
		w.in.Futile = 0
	}
	w.log = append(w.log, fmt.Sprintf("%s %s | %s", w.now.Format("04:05"), d, w.describe(in)))
	switch d.Action {
	case Create:
		if live := Summarize(in).Live; live > in.Desired {
			w.fail("a replica is made though there are %d", live)
		}
		w.make(w.identity())
	case Remove:
		if d.Reason == v1alpha1.ReasonReplicaUnhealthy {
			w.in.Futile++
		}
		i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.Name == d.Victim })
		if i < 0 || w.pods[i].Terminating {
			w.fail("%s is removed, and is not there or is being deleted", d.Victim)
		}
		w.mayRemove(in, i)
		if d.Force != (*w.nodes[cmp.Or(w.pods[i].node, "n0")] == NodeGone) {
			w.fail("force is %t", d.Force)
		}
		if d.Force || w.pods[i].node == "" {
			w.drop(w.pods[i])
			return
		}
		w.pods[i].Terminating, w.pods[i].ticks = true, 1+w.rand.IntN(3)
	}
}

// mayRemove holds what is promised of healthy replicas: one is removed only when it is one too many or of an old template, and when
// as many ready ones as are wanted stay.
func (w *world) mayRemove(in Input, i int) {
	h, _ := in.Health(in.Replicas[i])
	if h < Young {
		return
	}
	s := Summarize(in)
	if s.Live <= in.Desired {
		w.fail("%s is healthy and not one too many", in.Replicas[i].Name)
	}
	if s.Ready-1 < in.Desired {
		w.fail("%s is healthy, and %d ready ones would stay of %d", in.Replicas[i].Name, s.Ready-1, in.Desired)
	}
	if s.Live == in.Desired+1 && !in.OnDelete && s.Updated < s.Live && in.Replicas[i].Revision == in.Revision {
		w.fail("%s is healthy and new, and an old one stays", in.Replicas[i].Name)
	}
}

func (w *world) describe(in Input) string {
	var out []string
	for _, r := range in.Replicas {
		h, _ := in.Health(r)
		out = append(out, fmt.Sprintf("%s/%s:%d/%d/%t", r.Name, r.Revision, h, r.Node, r.Terminating))
	}
	return strings.Join(out, " ")
}

// settled is the fixed point: as many as are wanted are available and of the template, and nothing is to be done.
func (w *world) settled() bool {
	in := w.input()
	s := Summarize(in)
	updated := s.Updated == in.Desired || in.OnDelete
	return Decide(in).Action == Rest && s.Live == in.Desired && s.Available == in.Desired && updated
}

// TestSimulation runs the controller in worlds that began in any state, and were harmed for a while, until nothing is left to do.
// Nodes that are silent stay so: what is on them must be replaced, unless they are so many that it could be the network.
func TestSimulation(t *testing.T) {
	const (
		worlds = 4000
		harm   = 30
		// bound is generous: seven replicas, each replaced twice after its grace and rolled over once, with waits in between.
		bound = 200
	)
	longest := 0
	for seed := range uint64(worlds) {
		w := chaos(t, seed)
		for range harm {
			w.act(Decide(w.input()))
			w.step()
			if w.rand.IntN(6) == 0 {
				w.harm()
			}
		}
		if w.input().Blackout {
			for _, n := range names {
				*w.nodes[n], w.since[n] = NodeFine, w.now
			}
		}
		passes := 0
		for ; !w.settled(); passes++ {
			if passes == bound {
				w.fail("not settled after %d passes: %s", bound, w.describe(w.input()))
			}
			w.act(Decide(w.input()))
			w.step()
		}
		longest = max(longest, passes)
		for range 20 {
			if d := Decide(w.input()); d.Action != Rest {
				w.fail("it does not stay settled: %s", d)
			}
			w.step()
		}
	}
	t.Logf("%d worlds, the longest took %d passes", worlds, longest)
}

// TestSimulation_isRepeatable: the same world always takes the same way.
func TestSimulation_isRepeatable(t *testing.T) {
	run := func() []string {
		w := chaos(t, 7)
		for range 100 {
			w.act(Decide(w.input()))
			w.step()
		}
		return w.log
	}
	if !slices.Equal(run(), run()) {
		t.Error("two runs of one world differ")
	}
}
