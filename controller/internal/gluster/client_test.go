package gluster_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

func TestToken_isRefusedWithTheWrongSecretOrTooOld(t *testing.T) {
	p := newPool(t, 1)
	for name, cfg := range map[string]gluster.Config{
		"no secret":              {CA: p.ca},
		"another secret":         {CA: p.ca, Secret: []byte("x")},
		"without its newline":    {CA: p.ca, Secret: []byte(strings.TrimSpace(secret))},
		"older than two minutes": {CA: p.ca, Secret: []byte(secret), Now: func() time.Time { return time.Now().Add(-122 * time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			p.client = p.newClient(cfg)
			_, err := p.server(0).Peers(t.Context())
			wantKind(t, err, gluster.Denied, false)
			if _, err := p.server(0).Identify(t.Context()); err != nil {
				t.Errorf("who it is needs no token: %s", err)
			}
			wantKind(t, p.server(0).EditPeer(t.Context(), p.id(0), "z", nil), gluster.Denied, false)
		})
	}
	p.client = p.newClient(gluster.Config{CA: p.ca, Secret: []byte(secret), Now: func() time.Time { return time.Now().Add(-118 * time.Second) }})
	if _, err := p.server(0).Peers(t.Context()); err != nil {
		t.Errorf("a token of 118 seconds: %s", err)
	}
}

func TestClient_listensToServersOfItsCAAlone(t *testing.T) {
	p := newPool(t, 1)
	_, other := certificate(t)
	p.client = p.newClient(gluster.Config{CA: other, Secret: []byte(secret)})
	_, err := p.server(0).Peers(t.Context())
	wantKind(t, err, gluster.Unknown, false)
	p.client = p.newClient(gluster.Config{Secret: []byte(secret)})
	_, err = p.server(0).Peers(t.Context())
	wantKind(t, err, gluster.Unknown, false)
	if _, err := gluster.New(gluster.Config{CA: []byte("no certificate")}); err == nil {
		t.Error("a CA without a certificate is taken")
	}
	if _, err := p.client.At("host-without-port"); err == nil {
		t.Error("an address without a port is taken")
	}
}

func TestPeers_joinEditAndLeave(t *testing.T) {
	t.Parallel()
	p := newPool(t, 3)
	ctx := t.Context()
	peers, err := p.server(0).Peers(ctx)
	if err != nil || len(peers) != 3 {
		t.Fatalf("%v %v", peers, err)
	}
	for _, one := range peers {
		if want := map[string]string{p.id(0): p.id(0), p.id(1): "z2", p.id(2): "z3"}[one.ID]; one.Zone != want || !one.Online || len(one.Metadata) != 0 {
			t.Errorf("%+v, want zone %s", one, want)
		}
	}
	_, err = p.server(0).AddPeer(ctx, []string{"10.0.0.2"}, "", nil)
	wantKind(t, err, gluster.Exists, false)
	if err := p.server(1).EditPeer(ctx, p.id(0), "z1", map[string]string{"quarry": "1"}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, p.server(0).EditPeer(ctx, p.id(1), "", map[string]string{"_zone": "x"}), gluster.Refused, false)
	wantKind(t, p.server(0).EditPeer(ctx, p.id(1), "", map[string]string{"k": strings.Repeat("x", 5000)}), gluster.Refused, false)
	wantKind(t, p.server(0).EditPeer(ctx, strings.ToUpper(p.id(1)), "z", nil), gluster.Refused, false)
	wantKind(t, p.server(0).RemovePeer(ctx, p.id(0)), gluster.Refused, false)

	id := p.id(2)
	if gone, err := p.server(0).PeerGone(ctx, id); gone || err != nil {
		t.Errorf("gone %v, %v", gone, err)
	}
	p.client = p.newClient(gluster.Config{CA: p.ca, Secret: []byte(secret), Timeout: 10 * time.Second})
	if err := p.server(0).RemovePeer(ctx, id); err != nil {
		t.Fatal(err)
	}
	wantKind(t, p.server(0).RemovePeer(ctx, id), gluster.Absent, false)
	if gone, err := p.server(1).PeerGone(ctx, id); !gone || err != nil {
		t.Errorf("gone %v, %v", gone, err)
	}
}

// arrives repeats a call that ends by its timeout until one reached the server: on a busy machine it may end before.
func (p *pool) arrives(call func()) {
	for {
		before := p.world.Load().Begun
		call()
		if p.world.Load().Begun > before {
			return
		}
	}
}

func TestAddPeer_saysWhyNot(t *testing.T) {
	p := newPool(t, 1)
	ctx := t.Context()
	p.open(2, nil)
	p.nodes[1].Kill()
	_, err := p.server(0).AddPeer(ctx, []string{"10.0.0.2"}, "z2", nil)
	wantKind(t, err, gluster.PeerDown, false)
	p.nodes[1].Start()
	p.open(3, nil)
	c := p.world.Begin(p.nodes[1])
	_, f := c.AddPeer(cluster.PeerRequest{Addresses: []string{"10.0.0.3"}})
	c.End()
	if f != nil {
		t.Fatal(f.Errors)
	}
	_, err = p.server(0).AddPeer(ctx, []string{"10.0.0.2"}, "z2", nil)
	wantKind(t, err, gluster.Refused, false)
	_, err = p.server(0).AddPeer(ctx, nil, "z2", nil)
	wantKind(t, err, gluster.Refused, false)
	_, err = p.server(0).AddPeer(ctx, []string{"::1:24008"}, "z2", nil)
	wantKind(t, err, gluster.Refused, false)
}

func TestRemovePeer_answersThatWereLostAreLookedUp(t *testing.T) {
	t.Parallel()
	p := newPool(t, 2)
	id, patient := p.id(1), p.client
	// The server takes a second to remove a peer, and does so even if nobody waits.
	p.client = p.newClient(gluster.Config{CA: p.ca, Secret: []byte(secret), Timeout: 400 * time.Millisecond})
	p.arrives(func() { wantKind(t, p.server(0).RemovePeer(t.Context(), id), gluster.Unknown, true) })
	p.client = patient
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		gone, err := p.server(0).PeerGone(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if gone {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the peer is still there")
		}
	}
}

func TestRemovePeer_keepsPeersWithBricksAndDeadOnes(t *testing.T) {
	p := newPool(t, 2)
	p.devices()
	p.volume()
	wantKind(t, p.server(0).RemovePeer(t.Context(), p.id(1)), gluster.HasBricks, false)
	p.nodes[1].Stop()
	wantKind(t, p.server(0).RemovePeer(t.Context(), p.id(1)), gluster.PeerDown, false)
}

func TestDevices_addAndDisable(t *testing.T) {
	p := newPool(t, 2)
	ctx, id := t.Context(), p.id(1)
	if got, err := p.server(0).Devices(ctx, id); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
	if err := p.server(0).AddDevice(ctx, id, "/dev/vdb"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, p.server(0).AddDevice(ctx, id, "/dev/vdb"), gluster.Exists, false)
	wantKind(t, p.server(0).AddDevice(ctx, id, "/dev/vdc"), gluster.Failed, true)
	for _, bad := range []string{"", "/", "dev/vdb", "/dev//vdb", "/dev/vdb/", "/dev/../etc"} {
		wantKind(t, p.server(0).AddDevice(ctx, id, bad), gluster.Refused, false)
		wantKind(t, p.server(0).EnableDevice(ctx, id, bad, true), gluster.Refused, false)
	}
	for _, enabled := range []bool{false, false, true} {
		if err := p.server(0).EnableDevice(ctx, id, "/dev/vdb", enabled); err != nil {
			t.Fatal(err)
		}
		got, err := p.server(0).Devices(ctx, id)
		if err != nil || len(got) != 1 || got[0].Enabled != enabled || got[0].Free == 0 || got[0].Total < got[0].Free || got[0].Path != "/dev/vdb" || got[0].Peer != id {
			t.Errorf("%+v %v", got, err)
		}
	}
	wantKind(t, p.server(0).EnableDevice(ctx, id, "/dev/vdx", true), gluster.Absent, false)
}

func TestDevices_sizesAreUnsigned(t *testing.T) {
	p := newPool(t, 1)
	p.answers(like(200, jsonKind, `[{"device":"/dev/vdb","provisioner":"lvm","state":"enabled","free-size":18446744073653694464,"peer-id":"`+p.id(0)+`"}]`))
	got, err := p.server(0).Devices(t.Context(), p.id(0))
	if err != nil || got[0].Free != math.MaxUint64-55857151 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestReplaceBrick_asksOnlyTheOwner(t *testing.T) {
	p := newPool(t, 3)
	ctx := t.Context()
	p.devices()
	p.volume()
	v, err := p.server(0).Volume(ctx, "v")
	if err != nil || v.State != "Started" || len(v.Subvolumes) != 1 || len(v.Subvolumes[0].Bricks) != 2 {
		t.Fatalf("%+v %v", v, err)
	}
	old := v.Subvolumes[0].Bricks[0]
	owner, other := -1, -1
	for i := range p.nodes {
		if p.id(i) == old.Peer {
			owner = i
		} else if p.id(i) != v.Subvolumes[0].Bricks[1].Peer {
			other = i
		}
	}
	p.call(func(c *cluster.Call) { volume.Write(c, "v", "/f1", "/f2") })
	r := gluster.Replacement{Volume: "v", Brick: old.ID, Peer: old.Peer, Path: old.Path}
	wantKind(t, p.server(other).ReplaceBrick(ctx, r), gluster.Refused, false)
	wantKind(t, p.server(owner).ReplaceBrick(ctx, gluster.Replacement{Volume: "v", Brick: old.ID, Peer: old.Peer, Path: "/elsewhere"}), gluster.Absent, false)
	wantKind(t, p.server(owner).ReplaceBrick(ctx, gluster.Replacement{Volume: "v", Brick: v.Subvolumes[0].Bricks[1].ID, Peer: old.Peer, Path: old.Path}), gluster.Absent, false)
	wantKind(t, p.server(owner).ReplaceBrick(ctx, gluster.Replacement{Volume: "v", Peer: old.Peer, Path: old.Path}), gluster.Refused, false)
	wantKind(t, p.server(owner).ReplaceBrick(ctx, gluster.Replacement{Volume: "w", Brick: old.ID, Peer: old.Peer, Path: old.Path}), gluster.Absent, false)
	// The server does it, and its answer is lost.
	p.servers[owner].Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/replacebrick") {
			return false
		}
		p.servers[owner].Answer(httptest.NewRecorder(), r)
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
		return true
	})
	wantKind(t, p.server(owner).ReplaceBrick(ctx, r), gluster.Unknown, true)
	v, err = p.server(0).Volume(ctx, "v")
	if err != nil || v.Subvolumes[0].Bricks[0].Peer != p.id(other) {
		t.Errorf("%+v %v", v, err)
	}
	// The same request again finds that it took effect. The successor has the path of the brick that was replaced (w031), and is not taken for it.
	wantKind(t, p.server(owner).ReplaceBrick(ctx, r), gluster.Absent, false)
	if v.Subvolumes[0].Bricks[0].Path != old.Path {
		t.Errorf("the successor is at %s, want %s", v.Subvolumes[0].Bricks[0].Path, old.Path)
	}
	r.Peer = p.id(other)
	wantKind(t, p.server(other).ReplaceBrick(ctx, r), gluster.Absent, false)
	p.heals("v")
}

// heals waits until a volume is healed: first nothing heals, then the option is set.
func (p *pool) heals(name string) {
	t, ctx := p.t, p.t.Context()
	t.Helper()
	pending := func() (n uint64) {
		got, err := p.server(0).Heal(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range got {
			if !b.Known || b.SplitBrain != 0 {
				t.Errorf("%+v", b)
			}
			n += b.Pending
		}
		return n
	}
	if n := pending(); n != 2 {
		t.Errorf("%d entries are pending, want 2", n)
	}
	wantKind(t, p.server(0).StartHeal(ctx, name), gluster.Refused, false)
	if value, err := p.server(0).VolumeOption(ctx, name, gluster.SelfHeal); err != nil || value != "off" {
		t.Errorf("%s %v", value, err)
	}
	if err := p.server(0).SetVolumeOptions(ctx, name, map[string]string{gluster.SelfHeal: "on"}); err != nil {
		t.Fatal(err)
	}
	if err := p.server(0).StartHeal(ctx, name); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); pending() != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing heals")
		}
	}
}

func TestReplaceBrick_needsAZoneMore(t *testing.T) {
	p := newPool(t, 2)
	p.devices()
	p.volume()
	b := p.brick("v", p.id(0))
	err := p.server(0).ReplaceBrick(t.Context(), gluster.Replacement{Volume: "v", Brick: b.ID, Peer: b.Peer, Path: b.Path})
	wantKind(t, err, gluster.NoPlace, false)
}

func (p *pool) brick(name, peer string) gluster.Brick {
	v, err := p.server(0).Volume(p.t.Context(), name)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, b := range v.Subvolumes[0].Bricks {
		if b.Peer == peer {
			return b
		}
	}
	p.t.Fatalf("no brick on %s", peer)
	return gluster.Brick{}
}

func TestHeal_aBrickThatIsDownIsNotKnown(t *testing.T) {
	p := newPool(t, 2)
	p.devices()
	p.volume()
	p.nodes[1].KillBricks()
	p.call(func(c *cluster.Call) { volume.Write(c, "v", "/f") })
	got, err := p.server(0).Heal(t.Context(), "v")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range got {
		if up := b.Host == "10.0.0.1"; b.Known != up || (up && b.Pending != 2) {
			t.Errorf("%+v", b)
		}
	}
	bricks, err := p.server(0).Bricks(t.Context(), "v")
	if err != nil || len(bricks) != 2 {
		t.Fatal(bricks, err)
	}
	for _, b := range bricks {
		if b.Online != (b.Peer == p.id(0)) {
			t.Errorf("%+v", b)
		}
	}
	p.nodes[1].Stop()
	wantKind(t, p.server(0).SetVolumeOptions(t.Context(), "v", map[string]string{gluster.SelfHeal: "on"}), gluster.PeerDown, false)
}

func TestCalls_storeOutOfReachIsUnknown(t *testing.T) {
	t.Parallel()
	p := newPool(t, 2)
	id := p.id(1)
	p.world.FreezeStore()
	p.client = p.newClient(gluster.Config{CA: p.ca, Secret: []byte(secret), Timeout: 7 * time.Second})
	gone, err := p.server(0).PeerGone(t.Context(), id)
	wantKind(t, err, gluster.Unknown, false)
	if gone {
		t.Error("the peer is called gone")
	}
	p.client = p.newClient(gluster.Config{CA: p.ca, Secret: []byte(secret), Timeout: time.Second})
	_, err = p.server(0).Volumes(t.Context())
	wantKind(t, err, gluster.Unknown, false)
	p.arrives(func() { wantKind(t, p.server(0).EditPeer(t.Context(), id, "late", nil), gluster.Unknown, true) })
	p.world.ThawStore()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		peers, err := p.server(0).Peers(t.Context())
		if err == nil && (peers[0].Zone == "late" || peers[1].Zone == "late") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("what was asked for did not take effect: %+v %v", peers, err)
		}
	}
}

func TestSnapshots_haveBricks(t *testing.T) {
	p := newPool(t, 2)
	p.devices()
	p.volume()
	if got, err := p.server(0).Snapshots(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
	p.call(func(c *cluster.Call) {
		if _, f := volume.Snap(c, volume.SnapshotRequest{Volume: "v", Name: "s1"}); f != nil {
			t.Fatal(f.Errors)
		}
	})
	got, err := p.server(1).Snapshots(t.Context())
	if err != nil || len(got) != 1 || got[0].Name != "s1" || got[0].Parent != "v" || len(got[0].Bricks) != 2 {
		t.Errorf("%+v %v", got, err)
	}
	vs, err := p.server(1).Volumes(t.Context())
	if err != nil || len(vs) != 1 || len(vs[0].Snapshots) != 1 {
		t.Errorf("%+v %v", vs, err)
	}
}

func TestOptions_ofTheCluster(t *testing.T) {
	p := newPool(t, 1)
	ctx := t.Context()
	if err := p.server(0).SetClusterOptions(ctx, map[string]string{"cluster.localtime-logging": "on"}); err != nil {
		t.Fatal(err)
	}
	got, err := p.server(0).ClusterOptions(ctx)
	if o := got["cluster.localtime-logging"]; err != nil || o.Value != "on" || !o.Modified || o.Default != "off" || len(got) != 11 {
		t.Errorf("%+v %v", got, err)
	}
	wantKind(t, p.server(0).SetClusterOptions(ctx, map[string]string{"cluster.nosuch": "1"}), gluster.Refused, false)
	wantKind(t, p.server(0).SetClusterOptions(ctx, map[string]string{"cluster.max-bricks-per-process": "x"}), gluster.Refused, false)
	wantKind(t, p.server(0).SetClusterOptions(ctx, nil), gluster.Refused, false)
	_, err = p.server(0).Volume(ctx, "nosuch")
	wantKind(t, err, gluster.Absent, false)
	_, err = p.server(0).Volume(ctx, "no/such")
	wantKind(t, err, gluster.Refused, false)
	if strange := p.world.Strange(); len(strange) != 0 {
		t.Errorf("the client sent what it should not: %v", strange)
	}
}
