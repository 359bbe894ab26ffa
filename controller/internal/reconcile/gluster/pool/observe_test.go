package pool

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	decide "quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/drain"
	"quarry.storage/quarry/controller/internal/decide/gluster/removal"
	client "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/test/gd2"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

const secret = "secret"

// pool is one of stand-ins, each in a zone of its own with a disk.
type pool struct {
	t     *testing.T
	world *cluster.World
	nodes []*cluster.Node
	at    []*client.Server
	// servers are those of the nodes, whose answers can be replaced.
	servers []*gd2.Server
}

func newPool(t *testing.T, n int, changes ...func(*cluster.Config)) *pool {
	t.Helper()
	cfg := cluster.Config{HealTime: 50 * time.Millisecond, LeaveTime: 50 * time.Millisecond}
	for _, change := range changes {
		change(&cfg)
	}
	p := &pool{t: t, world: cluster.New(cfg)}
	t.Cleanup(p.world.Close)
	c, err := client.New(client.Config{Secret: []byte(secret), Timeout: 5 * time.Second})
	must(t, err)
	for i := range n {
		node := p.world.Add(cluster.NodeConfig{
			Name: fmt.Sprintf("gd%d", i), PeerAddress: fmt.Sprintf("10.0.0.%d:24008", i+1), ClientAddress: fmt.Sprintf("10.0.0.%d:24007", i+1), Secret: []byte(secret),
			Disk: &cluster.Disk{Blocks: map[string]*cluster.Block{"/dev/vdb": {Size: 10 << 30}}},
		})
		node.Start()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		s := &gd2.Server{World: p.world, Node: node}
		go func() { _ = s.Serve(l, nil) }()
		server, err := c.At(l.Addr().String())
		must(t, err)
		p.nodes, p.at, p.servers = append(p.nodes, node), append(p.at, server), append(p.servers, s)
		if i > 0 {
			_, err := p.at[0].AddPeer(t.Context(), []string{node.PeerAddress}, fmt.Sprintf("z%d", i), nil)
			must(t, err)
		}
	}
	for i := range n {
		must(t, p.at[0].AddDevice(t.Context(), p.id(i), "/dev/vdb"))
	}
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *pool) id(i int) (id string) {
	p.world.Do(func() { id = p.nodes[i].ID() })
	return id
}

func (p *pool) volume(name string, replica int) {
	p.t.Helper()
	c := p.world.Begin(p.nodes[0])
	defer c.End()
	if _, f := volume.Create(c, volume.CreateRequest{Name: name, Size: 400 << 20, Replica: replica}); f != nil {
		p.t.Fatal(f.Errors)
	}
	if _, f := volume.Start(c, name, volume.StartRequest{}); f != nil {
		p.t.Fatal(f.Errors)
	}
}

// TestObserve_drains empties a node of stand-ins by what is decided on what they answer, through the real client. No recording says whether a new brick is marked
// as lacking the data, so it is done with both.
func TestObserve_drains(t *testing.T) {
	for _, unmarked := range []bool{false, true} {
		t.Run(fmt.Sprintf("unmarked %v", unmarked), func(t *testing.T) {
			p := newPool(t, 4, func(c *cluster.Config) { c.NewUnmarked = unmarked })
			order, pending := p.drain()
			var want []string
			for _, v := range []string{"v", "w"} {
				want = append(want, "EnableSelfHeal "+v, "ReplaceBrick "+v, "HealVolume "+v, "Healing")
			}
			if !slices.Equal(slices.Compact(order), want) {
				t.Errorf("the order is %q, want %q", order, want)
			}
			// What nobody marked is copied as soon as a full heal marks it, so that it may be over before anybody looks.
			if !unmarked && !slices.Equal(pending, []string{"v", "w"}) {
				t.Errorf("data were copied in %q", pending)
			}
		})
	}
}

// drain empties the node that has a brick of both volumes, and returns what was done and waited for in which order, and in which volumes data were copied.
func (p *pool) drain() (order, pending []string) {
	t := p.t
	p.volume("v", 3)
	p.volume("w", 2)
	p.write("v")
	p.write("w")
	now := time.Now()
	seen, err := observe(t, p.at[0])
	must(t, err)
	owner := slices.IndexFunc(p.nodes, func(n *cluster.Node) bool {
		data, holding, _ := seen.Data(p.idOf(n))
		return data == nodestate.DataPresent && len(holding) == 2
	})
	if owner < 0 {
		t.Fatalf("no node has a brick of both volumes: %+v", *seen.Volumes)
	}
	var nodes []drain.Node
	for i := range p.nodes {
		nodes = append(nodes, drain.Node{Name: fmt.Sprintf("n%d", i), Peer: p.id(i), State: nodestate.Online})
	}
	nodes[owner].State = nodestate.Failed
	must(t, p.at[owner].EnableDevice(t.Context(), p.id(owner), "/dev/vdb", false))
	for range 60 {
		seen, err := observe(t, p.at[(owner+1)%len(p.at)])
		must(t, err)
		for _, v := range *seen.Volumes {
			if v.Heal != nil && v.Heal.Pending > 0 && !slices.Contains(pending, v.Name) {
				pending = append(pending, v.Name)
			}
		}
		d := drain.Decide(nodes[owner].Name, drain.Facts{Nodes: nodes, Pool: seen, Started: now.Add(-time.Hour), Now: now})
		switch d.Action {
		case drain.Rest:
			if data, _, _ := seen.Data(p.id(owner)); data != nodestate.DataAbsent {
				t.Errorf("at rest with data: %q", order)
			}
			p.holdsAll("v")
			p.holdsAll("w")
			return order, pending
		case drain.Record:
			nodes[owner].Move = d.Move
		case drain.Ask:
			m, err := Ask(t.Context(), p.at[owner], d, *seen.Peers)
			must(t, err)
			nodes[owner].Move = &m
			order = append(order, string(d.Move.Request)+" "+d.Move.Volume)
		case drain.Wait:
			order = append(order, d.Reason)
			time.Sleep(30 * time.Millisecond)
		}
		now = now.Add(time.Minute)
	}
	t.Fatalf("never empty: %q", order)
	return nil, nil
}

// observe is Observe where no PersistentVolume names a volume.
func observe(t *testing.T, api client.API) (decide.Pool, error) {
	t.Helper()
	seen, err := Observe(t.Context(), api)
	seen.Named = &[]decide.Named{}
	return seen, err
}

// write has a client write files to a volume.
func (p *pool) write(name string) {
	c := p.world.Begin(p.nodes[0])
	defer c.End()
	volume.Write(c, name, "/f1", "/f2")
}

// holdsAll fails unless every brick of a volume has all files.
func (p *pool) holdsAll(name string) {
	c := p.world.Begin(p.nodes[0])
	defer c.End()
	if v := c.C.Volumes[name]; len(v.Files) != 2 || len(v.Pending) > 0 || len(v.Unmarked) > 0 {
		p.t.Errorf("volume %s has files %+v, to be healed %+v, and nobody knows that it lacks %+v", name, v.Files, v.Pending, v.Unmarked)
	}
}

func (p *pool) idOf(n *cluster.Node) (id string) {
	p.world.Do(func() { id = n.ID() })
	return id
}

// TestObserve_unknown: a server without a store tells nothing, and nothing is taken for none.
func TestObserve_unknown(t *testing.T) {
	p := newPool(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	seen, err := Observe(ctx, p.at[0])
	if data, _, _ := seen.Data(p.id(0)); err == nil || seen.Peers != nil || data != nodestate.DataUnknown {
		t.Errorf("%+v, %v", seen, err)
	}
}

// TestAsk_lost: a request that had no answer stays on record as such, and one that was refused does not.
func TestAsk_lost(t *testing.T) {
	p := newPool(t, 3)
	p.volume("v", 2)
	seen, err := Observe(t.Context(), p.at[0])
	must(t, err)
	b := (*seen.Volumes)[0].Subvolumes[0].Bricks[0]
	owner := slices.IndexFunc(p.nodes, func(n *cluster.Node) bool { return p.idOf(n) == b.Peer })
	d := drain.Decision{Action: drain.Ask, Peer: b.Peer, Move: &v1alpha1.GlusterMove{Brick: b.ID, Volume: "v", Path: b.Path, Request: v1alpha1.GlusterReplaceBrick}}
	if _, err := Ask(t.Context(), p.at[owner], d, *seen.Peers); err == nil {
		t.Error("a brick is moved anywhere")
	}
	d.Limit = []string{b.Peer}
	if m, err := Ask(t.Context(), p.at[owner], d, *seen.Peers); err == nil || !m.Answered {
		t.Errorf("a brick has no place to go to: %+v, %v", m, err)
	}
	d.Move.Request = v1alpha1.GlusterHealVolume
	if m, err := Ask(t.Context(), p.at[owner], d, *seen.Peers); err == nil || !m.Answered || m.HealAsked != nil {
		t.Errorf("a volume is healed whose healing is off: %+v, %v", m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.Move.Request = v1alpha1.GlusterEnableSelfHeal
	p.nodes[owner].Freeze()
	time.AfterFunc(100*time.Millisecond, cancel)
	if m, err := Ask(ctx, p.at[owner], d, *seen.Peers); err == nil || m.Answered {
		t.Errorf("a request without an answer: %+v, %v", m, err)
	}
	p.nodes[owner].Thaw()
}

// TestLookFor_removes takes an empty node out of a pool of stand-ins in the order that is decided.
func TestLookFor_removes(t *testing.T) {
	p := newPool(t, 3)
	id := p.id(2)
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(id), DeletionTimestamp: &metav1.Time{Time: time.Now()}, Annotations: map[string]string{}, Finalizers: []string{v1alpha1.FinalizerGlusterNode},
	}, Spec: v1alpha1.GlusterNodeSpec{Peer: id}}
	f := removal.Facts{
		Node: n, Standing: decide.Standing{Flags: nodestate.Of(true, false, false, true)}, Workload: decide.Yes, Claims: decide.Yes,
		Others: []removal.Peer{{ID: p.id(0), State: nodestate.Online}, {ID: p.id(1), State: nodestate.Online}},
	}
	var order []removal.Step
	for range 10 {
		var err error
		f.Pool, err = Observe(t.Context(), p.at[0])
		must(t, err)
		f.Look, err = LookFor(t.Context(), p.at[0], id)
		must(t, err)
		d := removal.Decide(f)
		order = append(order, d.Step)
		switch d.Step {
		case removal.RemovePeer:
			via := slices.IndexFunc(p.nodes, func(n *cluster.Node) bool { return p.idOf(n) == d.Via })
			// What it answers does not matter: it is looked up.
			if err := p.at[via].RemovePeer(t.Context(), id); err != nil {
				t.Log(err)
			}
		case removal.RecordLeft:
			n.Annotations[v1alpha1.AnnotationPeerLeft] = id
		case removal.DeleteWorkload:
			p.nodes[2].Stop()
			f.Workload = decide.No
		case removal.DeleteClaims:
			f.Claims = decide.No
		}
		if d.Step == removal.DropFinalizer {
			break
		}
	}
	want := []removal.Step{removal.RemovePeer, removal.RecordLeft, removal.DeleteWorkload, removal.DeleteClaims, removal.DropFinalizer}
	if order = slices.Compact(order); !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
}
