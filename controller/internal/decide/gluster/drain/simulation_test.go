package drain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// world is a pool as it really is, minute by minute. Its servers hang, lie for a while about what is to be healed, and forget to answer.
type world struct {
	t    *testing.T
	rand *rand.Rand
	now  time.Time
	// nodes and volumes as a decision sees them; what only the world knows is beside them.
	nodes   []Node
	peers   []gluster.Peer
	devices []gluster.Device
	volumes []gluster.Volume
	// whole are the bricks that have all data. kept are the successors of bricks that were replaced, by the old node: the data are there as long as it is.
	whole map[string]bool
	kept  map[string][]string
	// fills are bricks that are being filled, and in how many minutes they are. Until quiet ends, nothing is said to be left to heal.
	fills, quiet map[string]int
	// late are requests that hang: what they do when they go on.
	late []late
	ids  int
	// moves counts bricks that were replaced, hung requests that took effect late.
	moves, hung int
}

type late struct {
	at     time.Time
	volume string
	do     func()
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 2)), now: now, whole: map[string]bool{}, kept: map[string][]string{}, //nolint:gosec // No secret.
		fills: map[string]int{}, quiet: map[string]int{},
	}
	zones := 4 + w.rand.IntN(2)
	for i := range zones + w.rand.IntN(3) {
		w.add(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d", i%zones))
	}
	for v := range 1 + w.rand.IntN(3) {
		vol := gluster.Volume{Name: fmt.Sprintf("v%d", v), Started: true, SelfHeal: gluster.Of(w.rand.IntN(2) == 0)}
		for range 1 + w.rand.IntN(2) {
			sub := gluster.Subvolume{Kind: gluster.Replicate}
			for z := range 2 + w.rand.IntN(2) {
				b := w.brick(fmt.Sprintf("n%d", z))
				w.whole[b.ID] = true
				sub.Bricks = append(sub.Bricks, b)
			}
			vol.Subvolumes = append(vol.Subvolumes, sub)
		}
		w.volumes = append(w.volumes, vol)
	}
	return w
}

func (w *world) add(name, zone string) {
	w.nodes = append(w.nodes, Node{Name: name, Peer: name + "-id", State: nodestate.Online})
	w.peers = append(w.peers, gluster.Peer{ID: name + "-id", Zone: zone, Online: true})
	w.devices = append(w.devices, gluster.Device{Peer: name + "-id", Path: "/dev/vdb", Enabled: true, Free: 1 << 50, Total: 1 << 50})
}

func (w *world) brick(node string) gluster.Brick {
	w.ids++
	id := fmt.Sprintf("b%d", w.ids)
	return gluster.Brick{ID: id, Peer: node + "-id", Path: "/bricks/" + id, Online: gluster.Yes}
}

func (w *world) node(name string) *Node {
	return &w.nodes[slices.IndexFunc(w.nodes, func(n Node) bool { return n.Name == name })]
}

// look is what one pass sees. Parts of it fail now and then.
func (w *world) look() Facts {
	f := Facts{Now: w.now, Started: now.Add(-time.Hour), Nodes: slices.Clone(w.nodes)}
	peers, devices, volumes := slices.Clone(w.peers), slices.Clone(w.devices), []gluster.Volume{}
	for _, v := range w.volumes {
		volumes = append(volumes, w.tell(v))
	}
	f.Pool = gluster.Pool{Peers: &peers, Volumes: &volumes, Snapshots: &[]gluster.Volume{}, Devices: &devices, Named: &[]gluster.Named{}}
	switch w.rand.IntN(40) {
	case 0:
		f.Pool.Volumes = nil
	case 1:
		f.Pool.Peers = nil
	case 2:
		peers[w.rand.IntN(len(peers))].Online = false
	case 3:
		volumes[w.rand.IntN(len(volumes))].Subvolumes = nil
	}
	return f
}

// tell is what the servers say of a volume.
func (w *world) tell(v gluster.Volume) gluster.Volume {
	out := v
	out.Subvolumes = nil
	heal := gluster.Heal{}
	for _, s := range v.Subvolumes {
		s.Bricks = slices.Clone(s.Bricks)
		for i := range s.Bricks {
			b := &s.Bricks[i]
			size := gluster.Size{Capacity: 90 * gi, Used: 30 * gi}
			if !w.whole[b.ID] {
				size.Used = gi
				if w.fills[b.ID] > 0 && w.quiet[b.ID] <= 0 {
					heal.Pending++
				}
			}
			b.Size = &size
			if peer, _ := (gluster.Pool{Peers: &w.peers}).Peer(b.Peer); !peer.Online {
				b.Online, b.Size = gluster.No, nil
			}
		}
		out.Subvolumes = append(out.Subvolumes, s)
	}
	out.Heal = &heal
	locked := slices.ContainsFunc(w.late, func(l late) bool { return l.volume == v.Name })
	if w.rand.IntN(30) == 0 || locked && w.rand.IntN(2) == 0 {
		out.Heal = nil
	}
	return out
}

func (w *world) volume(name string) *gluster.Volume {
	return &w.volumes[slices.IndexFunc(w.volumes, func(v gluster.Volume) bool { return v.Name == name })]
}

// do sends a request. It answers, or it does not, and what it asks for happens, or not, or later.
func (w *world) do(d Decision) (answered, done bool, said string) {
	m := *d.Move
	act := w.effect(m, d.Limit)
	switch w.rand.IntN(8) {
	case 0:
		return true, false, "refused"
	case 1:
		act()
		return false, true, []string{"", "failed after it was done"}[w.rand.IntN(2)]
	case 2:
		return false, false, ""
	case 3:
		w.hung++
		w.late = append(w.late, late{at: w.now.Add(time.Duration(1+w.rand.IntN(8)) * time.Minute), volume: m.Volume, do: act})
		return false, false, []string{"", "failed before it is done"}[w.rand.IntN(2)]
	}
	act()
	return true, true, ""
}

// effect is what a request does when it goes on. It has read the volume before.
func (w *world) effect(m v1alpha1.GlusterMove, limit []string) func() {
	before := *w.volume(m.Volume)
	subs := []gluster.Subvolume{}
	for _, s := range before.Subvolumes {
		subs = append(subs, gluster.Subvolume{Kind: s.Kind, Bricks: slices.Clone(s.Bricks)})
	}
	switch m.Request {
	case v1alpha1.GlusterEnableSelfHeal:
		return func() { v := w.volume(m.Volume); v.SelfHeal, v.Subvolumes = gluster.Yes, subs }
	case v1alpha1.GlusterHealVolume:
		return func() {
			for _, b := range w.volume(m.Volume).Bricks() {
				if !w.whole[b.ID] && w.fills[b.ID] == 0 {
					// The daemon takes a while until it begins, and now and then it stops before the end.
					w.fills[b.ID], w.quiet[b.ID] = 3+w.rand.IntN(60), w.rand.IntN(20)
				}
			}
		}
	}
	return func() {
		b := &subs[m.Subvolume].Bricks[m.Position]
		if b.ID != m.Brick {
			w.t.Fatalf("a replace was sent for brick %s, and hits %s", m.Brick, b.ID)
		}
		to := limit[w.rand.IntN(len(limit))]
		next := w.brick(to[:len(to)-3])
		w.kept[b.Peer] = append(w.kept[b.Peer], next.ID)
		*b = next
		w.volume(m.Volume).Subvolumes = subs
		w.moves++
	}
}

// minute lets time pass.
func (w *world) minute() {
	w.now = w.now.Add(time.Minute)
	var later []late
	for _, l := range w.late {
		if l.at.After(w.now) {
			later = append(later, l)
			continue
		}
		l.do()
	}
	w.late = later
	for id := range w.fills {
		if w.quiet[id]--; w.quiet[id] > 0 {
			continue
		}
		if w.fills[id]--; w.fills[id] == 0 {
			delete(w.fills, id)
			// The daemon stopped before the end one time in four: nothing is left to heal, and the brick is not whole.
			w.whole[id] = w.rand.IntN(4) > 0
		}
	}
	w.check()
}

// check holds what must never happen: of each set of copies, all but one are whole in the volume, and the data of that one are on a node that is still there.
func (w *world) check() {
	for _, v := range w.volumes {
		for i, s := range v.Subvolumes {
			partial := 0
			for _, b := range s.Bricks {
				if !w.whole[b.ID] {
					partial++
				}
			}
			if partial > 1 {
				w.t.Fatalf("%s: %d of %d copies of subvolume %d of %s have not all data", w.now.Sub(now), partial, len(s.Bricks), i, v.Name)
			}
		}
	}
}

// pass does for each node what a controller does, which may be killed between any two steps.
func (w *world) pass() {
	for _, name := range w.names() {
		n := w.node(name)
		if n.State != nodestate.Failed {
			continue
		}
		f := w.look()
		d := Decide(name, f)
		switch d.Action {
		case Record:
			n.Move = d.Move
		case Ask:
			n.Move = d.Move
			if w.rand.IntN(10) == 0 {
				continue // Killed before the request.
			}
			answered, done, said := w.do(d)
			if w.rand.IntN(10) == 0 {
				continue // Or killed after it.
			}
			if n.Move.Failure = said; answered {
				n.Move = new(Answered(*n.Move, done))
			}
		case Rest:
			// The flags are of the same look.
			if data, _, _ := f.Pool.Data(n.Peer); data == nodestate.DataAbsent && !n.open() {
				w.remove(name)
			}
		}
	}
}

func (w *world) names() []string {
	var names []string
	for _, n := range w.nodes {
		names = append(names, n.Name)
	}
	w.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// remove takes a node away with all that is on it.
func (w *world) remove(name string) {
	peer := w.node(name).Peer
	for _, v := range w.volumes {
		for _, b := range v.Bricks() {
			if b.Peer == peer {
				w.t.Fatalf("%s: node %s is removed with brick %s of %s", w.now.Sub(now), name, b.ID, v.Name)
			}
			if !w.whole[b.ID] && slices.Contains(w.kept[peer], b.ID) {
				w.t.Fatalf("%s: node %s is removed while brick %s of %s has not all data", w.now.Sub(now), name, b.ID, v.Name)
			}
		}
	}
	w.nodes = slices.DeleteFunc(w.nodes, func(n Node) bool { return n.Name == name })
	w.peers = slices.DeleteFunc(w.peers, func(p gluster.Peer) bool { return p.ID == peer })
}

// TestDecide_simulated empties nodes of pools whose servers do all that was recorded of them. No copy of anything is lost, and in the end the nodes are gone.
func TestDecide_simulated(t *testing.T) {
	moves, hung, gone := 0, 0, 0
	for seed := range uint64(60) {
		w := newWorld(t, seed)
		leave := 1 + w.rand.IntN(2)
		for i := range leave {
			n := w.node(fmt.Sprintf("n%d", i))
			n.State, n.Condemned = nodestate.Failed, w.now
			w.devices[i].Enabled = false
		}
		before := len(w.nodes)
		w.run(before - leave)
		for _, n := range w.nodes {
			if n.State == nodestate.Failed && w.spare() {
				d := Decide(n.Name, w.look())
				t.Errorf("seed %d: node %s is still there: %s, %s", seed, n.Name, d, d.Message)
			}
		}
		moves, hung, gone = moves+w.moves, hung+w.hung, gone+before-len(w.nodes)
	}
	t.Logf("%d bricks moved, %d requests hung, %d nodes gone", moves, hung, gone)
	if moves < 100 || hung < 40 || gone < 40 {
		t.Error("the simulation shows little")
	}
}

// run lets time pass until so many nodes are left. Where there is no zone to go to, it ends earlier: that will not change.
func (w *world) run(left int) {
	for i := 0; len(w.nodes) > left && i < 4000 && (i < 500 || w.spare()); i++ {
		w.pass()
		w.minute()
		if w.rand.IntN(50) == 0 {
			p := &w.peers[w.rand.IntN(len(w.peers))]
			p.Online = !p.Online
		}
		for i := range w.peers {
			if !w.peers[i].Online && w.rand.IntN(10) == 0 {
				w.peers[i].Online = true
			}
		}
	}
}

// spare reports whether every volume has a zone left to go to.
func (w *world) spare() bool {
	for _, v := range w.volumes {
		used, free := map[string]bool{}, false
		pool := gluster.Pool{Peers: &w.peers}
		for _, b := range v.Bricks() {
			p, _ := pool.Peer(b.Peer)
			used[p.Zone] = true
		}
		for _, n := range w.nodes {
			p, _ := pool.Peer(n.Peer)
			free = free || n.State == nodestate.Online && !used[p.Zone]
		}
		if !free {
			return false
		}
	}
	return true
}
