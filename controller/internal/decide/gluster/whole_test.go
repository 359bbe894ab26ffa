package gluster_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/cluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/drain"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/removal"
	"quarry.storage/quarry/controller/internal/decide/gluster/template"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	gi       = uint64(1) << 30
	capacity = 100 * gi
	size     = 10 * gi
)

// server is what is really there of a node.
type server struct {
	object *v1alpha1.GlusterNode
	// claim and workload exist. The server starts some minutes after its workload was made.
	claim, workload bool
	starts          int
	member, enabled bool
	registered      bool
}

func (s *server) id() string    { return string(s.object.UID) }
func (s *server) running() bool { return s.workload && s.starts <= 0 }

// world is a pool with its cluster. All packages decide about it together, as a controller would have them do.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	now     time.Time
	cluster *v1alpha1.GlusterCluster
	servers []*server
	volumes []gluster.Volume
	whole   map[string]bool
	heals   map[string]int
	ids     int
	// etcd and gone: the cluster is deleted last.
	deleting, drivers, etcd, gone bool
	// seen are the states that nodes were in one after the other.
	seen map[string]bool
}

func newWorld(t *testing.T, seed uint64, seen map[string]bool) *world {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 5)), now: begin, whole: map[string]bool{}, heals: map[string]int{}, drivers: true, etcd: true, seen: seen, //nolint:gosec // No secret.
		cluster: &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "pool"}},
	}
	for i := range 4 {
		w.cluster.Spec.NodeTemplates = append(w.cluster.Spec.NodeTemplates, v1alpha1.GlusterNodeTemplate{
			Name: fmt.Sprintf("z%d", i), Threshold: v1alpha1.GlusterThreshold{Nodes: new(int32(1))},
		})
	}
	return w
}

func (w *world) find(id string) *server {
	i := slices.IndexFunc(w.servers, func(s *server) bool { return gluster.SameID(s.id(), id) })
	if i < 0 {
		return nil
	}
	return w.servers[i]
}

func (w *world) objects() []*v1alpha1.GlusterNode {
	var all []*v1alpha1.GlusterNode
	for _, s := range w.servers {
		all = append(all, s.object)
	}
	return all
}

// pool is what the servers say: nothing if none of them is a member and runs, and now and then only half of it.
func (w *world) pool() gluster.Pool {
	peers, devices, volumes, answers := []gluster.Peer{}, []gluster.Device{}, []gluster.Volume{}, false
	for _, s := range w.servers {
		if !s.member {
			continue
		}
		answers = answers || s.running()
		peers = append(peers, gluster.Peer{ID: s.id(), Zone: string(s.object.Spec.Zone), Online: s.running()})
		if s.registered {
			d := gluster.Device{Peer: s.id(), Path: "/dev/d", Enabled: s.enabled, Total: capacity, Free: capacity}
			for _, v := range w.volumes {
				for _, b := range v.Bricks() {
					if b.Peer == s.id() {
						d.Free -= size
					}
				}
			}
			devices = append(devices, d)
		}
	}
	for _, v := range w.volumes {
		volumes = append(volumes, w.tell(v))
	}
	if !answers {
		return gluster.Pool{}
	}
	p := gluster.Pool{Peers: &peers, Devices: &devices, Volumes: &volumes, Snapshots: &[]gluster.Volume{}, Named: &[]gluster.Named{}}
	switch w.rand.IntN(30) {
	case 0:
		p.Volumes = nil
	case 1:
		p.Peers = nil
	case 2:
		p = gluster.Pool{}
	}
	return p
}

func (w *world) tell(v gluster.Volume) gluster.Volume {
	out := v
	out.Subvolumes, out.Heal = []gluster.Subvolume{{Kind: gluster.Replicate}}, &gluster.Heal{}
	for _, b := range v.Bricks() {
		s := w.find(b.Peer)
		b.Online, b.Size = gluster.Of(s != nil && s.running()), &gluster.Size{Capacity: size, Used: size / 2}
		if !w.whole[b.ID] {
			b.Size.Used = 0
			if w.heals[b.ID] > 0 {
				out.Heal.Pending++
			}
		}
		if b.Online != gluster.Yes {
			b.Size, out.Heal = nil, nil
		}
		out.Subvolumes[0].Bricks = append(out.Subvolumes[0].Bricks, b)
		if out.Heal == nil {
			out.Heal = &gluster.Heal{Pending: 1}
		}
	}
	return out
}

// pass is one pass over all nodes, the templates and the cluster.
func (w *world) pass() {
	nodes := []drain.Node{}
	standing := map[string]gluster.Standing{}
	for _, s := range w.servers {
		p := w.pool()
		data, _, _ := p.Data(s.id())
		st := gluster.Stand(s.object, gluster.Sight{Online: p.Online(s.id()), Answers: gluster.Of(s.running()), Data: data, Started: begin, Now: w.now})
		standing[s.object.Name] = st
		w.note(s.object, st)
		n := drain.Node{Name: s.object.Name, Peer: s.id(), State: st.State(), Move: s.object.Spec.Move}
		if d := s.object.DeletionTimestamp; d != nil {
			n.Condemned = d.Time
		}
		nodes = append(nodes, n)
	}
	for _, s := range slices.Clone(w.servers) {
		st := standing[s.object.Name]
		w.serve(s, st)
		if st.State() == nodestate.Failed {
			for i := range nodes {
				if o := w.find(nodes[i].Peer); o != nil {
					nodes[i].Move = o.object.Spec.Move
				}
			}
			w.empty(s, drain.Decide(s.object.Name, drain.Facts{Nodes: nodes, Pool: w.pool(), Started: begin, Now: w.now}))
		}
		w.remove(s, st, nodes)
	}
	if w.deleting {
		w.deleteCluster()
		return
	}
	w.size(standing)
}

func (w *world) note(n *v1alpha1.GlusterNode, st gluster.Standing) {
	w.seen[string(n.Status.State)+" to "+string(st.State())] = true
	f := st.Flags
	n.Status.State, n.Status.OtherSince = v1alpha1.MemberState(st.State()), st.OtherSince
	n.Status.Flags = &v1alpha1.MemberFlags{IsUp: f.IsUp(), HasData: f.HasData(), ShouldQuiesce: f.ShouldQuiesce(), ShouldDestroy: f.ShouldDestroy()}
}

// serve has a node join and its devices registered.
func (w *world) serve(s *server, st gluster.Standing) {
	if !gluster.Left(s.object) && s.object.DeletionTimestamp == nil {
		s.claim = true
		if !s.workload {
			s.workload, s.starts = true, 2
		}
	}
	var all []node.Candidate
	var others []string
	for _, o := range w.servers {
		all = append(all, node.Candidate{
			Name: o.object.Name, Created: o.object.CreationTimestamp.Time, Joined: o.object.Status.Joined, Answer: gluster.Of(o.running()), Condemned: o.object.DeletionTimestamp != nil,
		})
		if o != s {
			others = append(others, o.id())
		}
	}
	if speaker, begins := node.Speaker(all); begins && speaker == s.object.Name {
		s.member = true
	}
	p := node.Reconcile(node.Facts{
		Node: s.object, Standing: st, Spec: metav1.Condition{Status: metav1.ConditionTrue}, Claims: gluster.Of(s.claim), Workload: gluster.Of(s.running()),
		Address: s.id() + ":24008", Devices: []string{"/dev/d"}, Pool: w.pool(), Others: others,
	})
	s.object.Status.Joined = p.Joined
	for _, step := range p.Steps {
		switch step.Do {
		case node.Join:
			s.member = true
		case node.AddDevice:
			s.registered, s.enabled = true, true
		case node.EnableDevice:
			s.enabled = true
		case node.DisableDevice:
			s.enabled = false
		default:
			w.t.Fatalf("%s: %+v", s.object.Name, step)
		}
	}
}

// empty does what was decided to empty a node.
func (w *world) empty(s *server, d drain.Decision) {
	if d.Move != nil {
		s.object.Spec.Move = d.Move
	}
	if d.Action != drain.Ask {
		return
	}
	v := &w.volumes[slices.IndexFunc(w.volumes, func(v gluster.Volume) bool { return v.Name == d.Move.Volume })]
	switch d.Move.Request {
	case v1alpha1.GlusterReplaceBrick:
		to := w.find(d.Limit[w.rand.IntN(len(d.Limit))])
		if !to.running() || to.object.DeletionTimestamp != nil || !s.running() {
			w.t.Fatalf("%s: a brick of %s is moved to %s", w.now.Sub(begin), s.object.Name, to.object.Name)
		}
		b := &v.Subvolumes[0].Bricks[d.Move.Position]
		if b.ID != d.Move.Brick {
			w.t.Fatalf("the wrong brick is replaced")
		}
		*b = w.brick(to)
	case v1alpha1.GlusterHealVolume:
		for _, b := range v.Bricks() {
			if !w.whole[b.ID] {
				w.heals[b.ID] = 1 + w.rand.IntN(30)
			}
		}
	}
	s.object.Spec.Move = new(drain.Answered(*d.Move, true))
}

func (w *world) brick(on *server) gluster.Brick {
	w.ids++
	id := fmt.Sprintf("b%d", w.ids)
	return gluster.Brick{ID: id, Peer: on.id(), Path: "/bricks/" + id}
}

// remove does what was decided to remove a node. What goes with it must not be the data of anything.
func (w *world) remove(s *server, st gluster.Standing, nodes []drain.Node) {
	f := removal.Facts{Node: s.object, Standing: st, Pool: w.pool(), Workload: gluster.Of(s.workload), Claims: gluster.Of(s.claim)}
	for _, n := range nodes {
		if o := w.find(n.Peer); o != nil && o != s {
			f.Others = append(f.Others, removal.Peer{ID: n.Peer, State: n.State})
			if o.member && o.running() {
				if f.Look = removal.NotFound; s.member {
					f.Look = removal.Found
				}
			}
		}
	}
	switch d := removal.Decide(f); d.Step {
	case removal.RemovePeer:
		if via := w.find(d.Via); via == s || !via.running() || !s.running() {
			w.t.Fatalf("%s cannot remove %s", d.Via, s.object.Name)
		}
		s.member = false
	case removal.RecordLeft:
		s.object.Annotations[v1alpha1.AnnotationPeerLeft] = s.id()
	case removal.DeleteWorkload:
		w.holdsNothing(s)
		s.workload = false
	case removal.DeleteClaims:
		w.holdsNothing(s)
		s.claim = false
	case removal.DropFinalizer:
		w.servers = slices.DeleteFunc(w.servers, func(o *server) bool { return o == s })
	}
}

func (w *world) holdsNothing(s *server) {
	for _, v := range w.volumes {
		copies := 0
		for _, b := range v.Bricks() {
			if b.Peer == s.id() {
				w.t.Fatalf("%s: %s is removed with a brick of %s", w.now.Sub(begin), s.object.Name, v.Name)
			}
			if w.whole[b.ID] {
				copies++
			}
		}
		if copies < len(v.Bricks())-1 {
			w.t.Fatalf("%s: %s is removed while %s has %d copies", w.now.Sub(begin), s.object.Name, v.Name, copies)
		}
	}
}

// size makes and deletes nodes of the templates.
func (w *world) size(standing map[string]gluster.Standing) {
	all := cluster.GetNodes(w.cluster, w.objects())
	for _, t := range w.cluster.Spec.NodeTemplates {
		decision := template.Template{Threshold: t.Threshold, Capacity: capacity}
		for _, n := range all.ByTemplate[t.Name] {
			s, p := w.find(string(n.UID)), w.pool()
			one := template.Node{Name: n.Name, Created: n.CreationTimestamp.Time, State: standing[n.Name].State(), Joined: s.registered}
			one.Data, _, _ = p.Data(s.id())
			if space, err := node.GetFreeSpace(p, s.id(), []string{"/dev/d"}); err == nil {
				one.Space = &space
			}
			decision.Nodes = append(decision.Nodes, one)
		}
		for _, s := range w.servers {
			if s.object.DeletionTimestamp != nil {
				decision.Condemned = s.object.Name
			}
		}
		d := decision.Reconcile()
		for range d.Create {
			w.ids++
			n := cluster.NewNode(w.cluster, t, fmt.Sprintf("%08d", w.ids))
			n.UID, n.Spec.Peer, n.CreationTimestamp = types.UID(n.Name+"-uid"), n.Name+"-uid", metav1.Time{Time: w.now.Add(time.Duration(w.ids))}
			w.servers = append(w.servers, &server{object: n})
			standing[n.Name] = gluster.Standing{}
		}
		if s := w.named(d.Remove); s != nil {
			s.object.DeletionTimestamp = &metav1.Time{Time: w.now}
		}
	}
}

func (w *world) named(name string) *server {
	i := slices.IndexFunc(w.servers, func(s *server) bool { return s.object.Name == name })
	if i < 0 {
		return nil
	}
	return w.servers[i]
}

func (w *world) deleteCluster() {
	d := cluster.Deletion{Pool: w.pool(), Nodes: w.objects(), Drivers: gluster.Of(w.drivers), Etcd: gluster.Of(w.etcd)}.Delete()
	if d.Step != cluster.Hold && len(w.volumes) > 0 {
		w.t.Fatalf("%s while there are volumes", d.Step)
	}
	switch d.Step {
	case cluster.DeleteDrivers:
		w.drivers = false
	case cluster.DeleteNode:
		w.named(d.Node).object.DeletionTimestamp = &metav1.Time{Time: w.now}
	case cluster.DeleteEtcd:
		if w.etcd = false; len(w.servers) > 0 {
			w.t.Fatal("etcd is deleted before the nodes")
		}
	case cluster.DropFinalizer:
		w.gone = true
	}
}

// minute lets time pass.
func (w *world) minute() {
	w.now = w.now.Add(time.Minute)
	for _, s := range w.servers {
		s.starts--
	}
	for id := range w.heals {
		if w.heals[id]--; w.heals[id] == 0 {
			delete(w.heals, id)
			w.whole[id] = true
		}
	}
	for _, v := range w.volumes {
		partial := 0
		for _, b := range v.Bricks() {
			if !w.whole[b.ID] {
				partial++
			}
		}
		if partial > 1 {
			w.t.Fatalf("%s: %d copies of %s are not whole", w.now.Sub(begin), partial, v.Name)
		}
	}
}

// happen is what people and machines do.
func (w *world) happen() {
	if len(w.servers) == 0 {
		return
	}
	s := w.servers[w.rand.IntN(len(w.servers))]
	switch w.rand.IntN(6) {
	case 0:
		s.starts = 1 + w.rand.IntN(10) // Its server is down for a while.
	case 1:
		s.object.Spec.DesiredState = v1alpha1.GlusterDisabled
	case 2, 3:
		for _, o := range w.servers {
			o.object.Spec.DesiredState = v1alpha1.GlusterEnabled
		}
	case 4:
		if w.rand.IntN(2) == 0 && s.object.DeletionTimestamp == nil {
			s.object.DeletionTimestamp = &metav1.Time{Time: w.now}
		}
	case 5:
		t := &w.cluster.Spec.NodeTemplates[w.rand.IntN(4)]
		t.Threshold = v1alpha1.GlusterThreshold{Nodes: new(1 + w.rand.Int32N(3))}
	}
}

// fill makes volumes of two or three copies, each in a zone of its own.
func (w *world) fill() {
	for i := range 3 {
		v := gluster.Volume{Name: fmt.Sprintf("v%d", i), Started: true, SelfHeal: gluster.Yes, Subvolumes: []gluster.Subvolume{{Kind: gluster.Replicate}}}
		for z := range 2 + w.rand.IntN(2) {
			on := slices.IndexFunc(w.servers, func(s *server) bool {
				return string(s.object.Spec.Zone) == fmt.Sprintf("z%d", z) && s.object.DeletionTimestamp == nil
			})
			b := w.brick(w.servers[on])
			w.whole[b.ID] = true
			v.Subvolumes[0].Bricks = append(v.Subvolumes[0].Bricks, b)
		}
		w.volumes = append(w.volumes, v)
	}
}

// run lets minutes pass, in which things happen or not.
func (w *world) run(minutes int, happens bool) {
	for range minutes {
		if happens && w.rand.IntN(4) == 0 {
			w.happen()
		}
		w.pass()
		w.minute()
	}
}

// calm reports whether every node serves, and takes bricks.
func (w *world) calm() bool {
	return !slices.ContainsFunc(w.servers, func(s *server) bool { return s.object.Status.State != "online" || !s.enabled })
}

// TestWhole_simulated runs pools from their first node to the last, with all decisions together: nodes join, are under maintenance, fall, are deleted and sized
// away; then the volumes are deleted, and the cluster. No copy is lost, nothing is removed that holds data, and in the end nothing is left.
func TestWhole_simulated(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(5) {
		w := newWorld(t, seed, seen)
		w.run(30, false)
		w.fill()
		w.run(400, true)
		for _, s := range w.servers {
			s.object.Spec.DesiredState = v1alpha1.GlusterEnabled
		}
		for i := 0; i < 2500 && !w.calm(); i++ {
			w.run(1, false)
		}
		if !w.calm() {
			t.Errorf("seed %d: not all nodes serve in the end", seed)
		}
		w.deleting = true
		w.run(20, false)
		if len(w.servers) == 0 || !w.drivers {
			t.Errorf("seed %d: the cluster goes with its volumes", seed)
		}
		w.volumes = nil
		for i := 0; i < 500 && !w.gone; i++ {
			w.run(1, false)
		}
		if !w.gone || len(w.servers) > 0 || w.etcd {
			t.Errorf("seed %d: the cluster is never gone: %d nodes", seed, len(w.servers))
		}
	}
	for _, edge := range strings.Split("online to offline,offline to online,online to quiesced,quiesced to online,offline to quiesced,quiesced to offline,"+
		"online to failed,quiesced to failed,failed to abandoned,online to abandoned", ",") {
		if !seen[edge] {
			t.Errorf("never seen: %s", edge)
		}
	}
}
