package template

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

const gi = uint64(1) << 30

// simulated is a template over time: nodes join late, data come and go, nodes are under maintenance, silent or down for a while, and those that leave give
// their data to the others, where it takes a little more.
type simulated struct {
	Template
	t    *testing.T
	rand *rand.Rand
	made int
	// used is what is in use on each node, joins in how many passes it joins.
	used  map[string]uint64
	joins map[string]int
	// last is +1 or -1 for what was done last since the demand changed.
	last, turns int
}

func newSimulated(t *testing.T, seed uint64) *simulated {
	s := &simulated{t: t, rand: rand.New(rand.NewPCG(seed, 1)), used: map[string]uint64{}, joins: map[string]int{}} //nolint:gosec // No secret.
	s.Capacity = gi * (100 + s.rand.Uint64N(2000))
	s.Threshold = s.bounds()
	return s
}

// bounds are random ones that the API takes.
func (s *simulated) bounds() v1alpha1.GlusterThreshold {
	for {
		var h v1alpha1.GlusterThreshold
		if s.rand.IntN(5) == 0 {
			h.Nodes = new(s.rand.Int32N(8))
			return h
		}
		if s.rand.IntN(2) == 0 {
			h.MinNodes = new(s.rand.Int32N(4))
		}
		if s.rand.IntN(2) == 0 {
			h.MaxNodes = new(1 + s.rand.Int32N(12))
		}
		quantity := func(factor uint64) *resource.Quantity {
			return resource.NewQuantity(int64(1+s.rand.Uint64N(s.Capacity*factor)), resource.BinarySI) //nolint:gosec // Small.
		}
		if s.rand.IntN(2) == 0 {
			h.FreeStorageMin = quantity(4)
		}
		if s.rand.IntN(2) == 0 {
			h.FreeStorageMax = quantity(8)
		}
		if (Template{Threshold: h, Capacity: s.Capacity}).ValidateSpec() == nil {
			return h
		}
	}
}

// act does what was decided, and checks it against the bounds.
func (s *simulated) act(pass int) Decision {
	d := s.Reconcile()
	have, h := len(s.GetNodes()), s.Threshold
	least, most := 0, maxNodes
	if h.Nodes != nil {
		least, most = int(*h.Nodes), int(*h.Nodes)
	}
	if h.MinNodes != nil {
		least = int(*h.MinNodes)
	}
	if h.MaxNodes != nil {
		most = int(*h.MaxNodes)
	}
	switch {
	case d.Create > 0 && d.Remove != "":
		s.t.Fatalf("pass %d makes and removes: %s", pass, d)
	case d.Create > 0:
		if have+d.Create > most {
			s.t.Fatalf("pass %d: %d nodes, at most %d: %s", pass, have, most, d)
		}
		for range d.Create {
			s.made++
			n := Node{Name: fmt.Sprintf("n%d", s.made), Created: epoch.Add(time.Duration(pass) * time.Minute), State: nodestate.Offline}
			s.joins[n.Name] = 1 + s.rand.IntN(5)
			s.Nodes = append(s.Nodes, n)
		}
		s.turn(+1)
	case d.Remove != "":
		if have-1 < least {
			s.t.Fatalf("pass %d: %d nodes, at least %d: %s", pass, have, least, d)
		}
		for i := range s.Nodes {
			switch {
			case s.Nodes[i].Name == d.Remove:
				s.Nodes[i].State = nodestate.Failed
			case s.Nodes[i].condemned():
				s.t.Fatalf("pass %d: two nodes leave: %s", pass, d)
			}
		}
		s.turn(-1)
	}
	return d
}

func (s *simulated) turn(to int) {
	if s.last == -to {
		s.turns++
	}
	s.last = to
}

// pass lets nodes join, and those that leave give away their data.
func (s *simulated) pass() {
	var stay []Node
	for _, n := range s.Nodes {
		if n.condemned() && s.used[n.Name] == 0 {
			delete(s.used, n.Name)
			continue
		}
		stay = append(stay, n)
	}
	s.Nodes = stay
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if s.joins[n.Name]--; s.joins[n.Name] == 0 && n.State == nodestate.Offline {
			n.Joined, n.State, n.Data = true, nodestate.Online, nodestate.DataAbsent
		}
		if n.condemned() {
			move := min(s.used[n.Name], 1+s.Capacity/4)
			s.used[n.Name] -= move
			s.spread(move + move/100)
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.Joined {
			continue
		}
		total := s.Capacity - s.Capacity/200
		n.Space = &gluster.Space{Total: total, Free: sub(total, s.used[n.Name])}
		if n.Data = nodestate.DataAbsent; s.used[n.Name] > 0 {
			n.Data = nodestate.DataPresent
		}
	}
}

// spread puts data on nodes that have room. What has none is not written: clients are told that there is no space.
func (s *simulated) spread(bytes uint64) {
	for _, n := range s.Nodes {
		if n.Joined && !n.condemned() && n.State == nodestate.Online {
			put := min(bytes, sub(s.Capacity-s.Capacity/200, s.used[n.Name]))
			s.used[n.Name] += put
			bytes -= put
		}
	}
}

// disturb changes the demand, or how nodes are.
func (s *simulated) disturb() {
	s.last, s.turns = 0, 0
	switch s.rand.IntN(4) {
	case 0:
		s.spread(s.rand.Uint64N(3 * s.Capacity))
	case 1:
		for name, n := range s.used {
			s.used[name] = s.rand.Uint64N(n + 1)
		}
	case 2:
		states := []nodestate.State{nodestate.Online, nodestate.Quiesced, nodestate.Offline, nodestate.Failed}
		if len(s.Nodes) > 0 {
			if n := &s.Nodes[s.rand.IntN(len(s.Nodes))]; n.Joined && !n.condemned() {
				n.State = states[s.rand.IntN(len(states))]
			}
		}
	case 3:
		if s.rand.IntN(8) == 0 {
			s.Threshold = s.bounds()
		}
	}
}

// TestReconcile_simulated: over random demand the number of nodes never leaves its bounds by what is decided. Once nothing changes any more, it comes to rest,
// without a node that is made and removed again.
func TestReconcile_simulated(t *testing.T) {
	made := 0
	for seed := range uint64(120) {
		s := newSimulated(t, seed)
		for pass := range 400 {
			if pass%7 == 0 && pass < 300 {
				s.disturb()
			}
			if pass == 300 {
				// Maintenance ends, and nodes come back.
				for i := range s.Nodes {
					if n := &s.Nodes[i]; n.away() {
						n.State = nodestate.Online
					}
				}
				s.last, s.turns = 0, 0
			}
			s.act(pass)
			s.pass()
			if s.turns > 0 {
				t.Fatalf("seed %d, pass %d: a node was made and one removed while nothing changed, with %+v", seed, pass, s.Threshold)
			}
		}
		if d := s.act(400); d.Create > 0 || d.Remove != "" || d.Reason == v1alpha1.ReasonSizingWaits || d.Reason == v1alpha1.ReasonSizingFrozen {
			t.Errorf("seed %d does not come to rest: %s, %s", seed, d, d.Message)
		}
		made += s.made
	}
	if made < 400 {
		t.Errorf("only %d nodes were made: the simulation shows little", made)
	}
}
