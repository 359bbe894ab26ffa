package shared

import (
	"context"
	"crypto/tls"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"quarry.storage/quarry/agent/agenttest"
	model "quarry.storage/quarry/agent/agenttest/sharedgroup"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	mib = 1 << 20
	// The writers of its group are n1, n2 and n3, in this order.
	owner = "0f3b2c1d-1111-2222-3333-444455550003"
)

// site is a LUN that three nodes see, each with an agent behind a real connection, and a process of the controller.
type site struct {
	*testing.T
	*san.San
	calls  Calls
	lun    *model.LUN
	ref    sharedlun.Ref
	names  []string
	nodes  map[string]*model.Node
	agents map[string]*agenttest.Agent

	mu      sync.Mutex
	granted map[string]san.Member
	record  writer.Record
	version int
}

func newSite(t *testing.T) *site {
	fabric, ca := model.NewSAN(), agenttest.NewCA(t)
	s := &site{T: t, lun: fabric.AddLUN("lun1", 500*mib), nodes: map[string]*model.Node{}, agents: map[string]*agenttest.Agent{}, granted: map[string]san.Member{}}
	pool := agents.New(context.WithoutCancel(t.Context()), agents.Config{
		TLS:   func(node string) (*tls.Config, error) { return ca.ControllerTLS(t, node), nil },
		Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond, Absence: 100 * time.Millisecond,
	})
	t.Cleanup(pool.Close)
	s.calls = Calls{Pool: pool}
	s.lun.Reserve(1, 2, 3)
	for i, name := range []string{"n1", "n2", "n3"} {
		key := uint64(i + 1)
		n := fabric.AddNode(t, key)
		s.names, s.nodes[name] = append(s.names, name), n
		s.agents[name] = agenttest.New(t, agenttest.Options{NodeName: name, CA: ca, SharedGroups: n, Luns: model.Keys{N: n}})
		s.granted[name] = san.Member{Node: name, Credential: sharedlun.Credential{Key: key}, BootID: n.BootID()}
		pool.SetAddress(name, s.agents[name].Addr(), "pod-"+name)
		s.up(name)
	}
	s.San = san.New(san.Config{Self: "csi/1", Nodes: s.calls, Fleet: s, Leases: s, Pause: time.Millisecond})
	s.ref = sharedlun.Ref{Lun: s.lun.Identity(), OwnerUID: owner}
	g, err := s.calls.Create(t.Context(), "n1", s.ref, sharedlun.Mandate{Epoch: 1, Credential: s.granted["n1"].Credential, Timeout: time.Minute}, "shared-1", "")
	s.must(err)
	s.ref.UUID = g.UUID
	return s
}

// detach takes the volume "a" from a node, or from whichever has it when that is empty.
func (s *site) detach(node string) error {
	return s.Turn(s.Context(), s.ref, func(ctx context.Context, t *san.Turn) error {
		if v := t.Group.Volume("a"); v == nil || node != "" && v.HeldBy != node {
			return nil
		}
		return t.TakeAway(ctx, "a")
	})
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) refused(err error, says string) {
	s.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		s.Fatalf("%v, want an error that says %q", err, says)
	}
}

// up waits until the agent of a node answers.
func (s *site) up(name string) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); !s.calls.Pool.Node(name).Up(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("the agent of %s does not answer", name)
		}
	}
}

// down ends the agent of a node, and waits until that is known.
func (s *site) down(name string) {
	s.Helper()
	s.agents[name].Kill()
	for end := time.Now().Add(20 * time.Second); s.calls.Pool.Node(name).Up(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("the agent of %s answers still", name)
		}
	}
}

// Members are what the API server and the connections say.
func (s *site) Members(context.Context, sharedlun.Ref) ([]san.Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []san.Member
	for _, name := range s.names {
		m := s.granted[name]
		if s.calls.Pool.Node(name).Up() {
			m.ReportedBootID = s.nodes[name].BootID()
			m.Up = m.ReportedBootID == m.BootID
		}
		out = append(out, m)
	}
	return out, nil
}

// fence takes a node's key off through another node, and writes that on its Member.
func (s *site) fence(name, by string) {
	s.Helper()
	_, err := s.calls.Preempt(s.Context(), by, s.ref.Lun, s.granted[by].Key, s.granted[name].Key)
	s.must(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.granted[name]
	m.Fenced = true
	s.granted[name] = m
}

// Load is the record.
func (s *site) Load(context.Context, string) (writer.Record, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == 0 {
		return writer.Record{}, "", nil
	}
	return s.record, s.versionNow(), nil
}

// Store replaces it.
func (s *site) Store(_ context.Context, _ string, r writer.Record, version string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != s.versionNow() && (version != "" || s.version != 0) {
		return "", san.ErrConflict
	}
	s.record = r
	s.version++
	return s.versionNow(), nil
}

func (s *site) versionNow() string { return "lease/" + strconv.Itoa(s.version) }

// provision makes a volume as CSI does: made and held by the writer, zeroed there, then ready, and nobody's.
func (s *site) provision(name string, bytes int64) sharedlun.Volume {
	s.Helper()
	var at string
	var v sharedlun.Volume
	s.must(s.Turn(s.Context(), s.ref, func(ctx context.Context, t *san.Turn) error {
		at = s.record.Writer
		if err := t.Change(ctx, sharedlun.Change{Create: &sharedlun.Create{Name: name, SizeBytes: bytes}}); err != nil {
			return err
		}
		var err error
		v, err = t.Hold(ctx, name, at)
		return err
	}))
	_, err := s.calls.Map(s.Context(), at, s.ref, s.granted[at].Credential, v, s.lun.Group().Sequence)
	s.refused(err, "nothing of volume "+name+" is ready")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		p, err := s.calls.Zero(s.Context(), at, s.ref, s.granted[at].Credential, v, true)
		s.must(err)
		if p.Done {
			break
		}
		if time.Now().After(end) {
			s.Fatalf("never done: %+v", p)
		}
	}
	s.must(s.Turn(s.Context(), s.ref, func(ctx context.Context, t *san.Turn) error {
		if err := t.Change(ctx, sharedlun.Change{Ready: &sharedlun.Ready{Name: name, UUID: v.UUID, Bytes: v.SizeBytes}}); err != nil {
			return err
		}
		return t.TakeAway(ctx, name)
	}))
	return *s.lun.Group().Volume(name)
}

// TestWire_life: a volume is made, zeroed, attached, moved, detached and removed, over real connections.
func TestWire_life(t *testing.T) {
	s := newSite(t)
	v := s.provision("a", 8*mib)
	if v.HeldBy != "" || v.Unready() {
		t.Fatalf("made: %+v", v)
	}
	m, err := s.Attach(t.Context(), s.ref, "a", "n2")
	s.must(err)
	if m.VolumeUUID != v.UUID || m.Device == "" || !slices.Equal(m.Ranges, v.Ranges) {
		t.Errorf("attached: %+v", m)
	}
	if !s.nodes["n2"].Blank(v.UUID, 0, 8*mib) {
		t.Error("a new volume is not zero")
	}
	s.must(s.nodes["n2"].Write(v.UUID, 4*mib))
	_, err = s.Attach(t.Context(), s.ref, "a", "n3")
	s.refused(err, "attached to node n2")
	closing, err := s.nodes["n2"].Open(v.UUID)
	s.must(err)
	s.refused(s.detach("n2"), "open")
	closing()
	s.must(s.detach("n2"))
	_, err = s.Attach(t.Context(), s.ref, "a", "n3")
	s.must(err)
	if s.nodes["n3"].Blank(v.UUID, 4*mib, 8*mib) {
		t.Error("what was written is gone")
	}
	s.refused(s.Remove(t.Context(), s.ref, "a", v.UUID), "held by a node")
	s.must(s.detach(""))
	s.refused(s.Remove(t.Context(), s.ref, "a", s.ref.UUID), v.UUID)
	s.must(s.Remove(t.Context(), s.ref, "a", v.UUID))
	if g := s.lun.Group(); len(g.Volumes) > 0 || s.record.Taken != "" || s.record.Epoch != g.Epoch || s.lun.Damage() != "" {
		t.Errorf("at the end: %+v, %+v", g, s.record)
	}
}

// TestWire_writerDies: the agent of the writer dies while LVM writes. Nobody changes the group before the node is fenced, and the keys on the LUN show it;
// what it wrote late changes nothing.
func TestWire_writerDies(t *testing.T) {
	s := newSite(t)
	s.provision("a", 8*mib)
	if s.record.Writer != "n1" {
		t.Fatalf("%+v", s.record)
	}
	late := s.nodes["n1"].Delay()
	defer late()
	attached := make(chan error, 1)
	before := s.lun.Group().Sequence
	go func() {
		_, err := s.Attach(context.WithoutCancel(t.Context()), s.ref, "a", "n2")
		attached <- err
	}()
	for end := time.Now().Add(20 * time.Second); !s.nodes["n1"].Writes(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the writer never writes")
		}
	}
	s.down("n1")
	if err := <-attached; err == nil {
		t.Fatal("the answer was not lost")
	}
	if s.record.Taken != "csi/1" {
		t.Errorf("the turn was given back: %+v", s.record)
	}
	attach := func() error {
		_, err := s.Attach(t.Context(), s.ref, "a", "n3")
		return err
	}
	s.refused(attach(), "may still run on n1")
	// A Member that says so proves nothing.
	s.mu.Lock()
	m := s.granted["n1"]
	m.Fenced = true
	s.granted["n1"] = m
	s.mu.Unlock()
	s.refused(attach(), "of n1, which is fenced, is on the LUN")
	s.fence("n1", "n2")
	s.must(attach())
	late()
	g := s.lun.Group()
	if v := g.Volume("a"); v.HeldBy != "n3" || g.Epoch < 2 || g.Sequence <= before || s.lun.Damage() != "" {
		t.Errorf("%+v", g)
	}
}

// TestWire_holderDies: a volume is taken from a node that is fenced, and is removed only once the node has another boot.
func TestWire_holderDies(t *testing.T) {
	s := newSite(t)
	v := s.provision("a", 8*mib)
	_, err := s.Attach(t.Context(), s.ref, "a", "n3")
	s.must(err)
	s.must(s.nodes["n3"].Write(v.UUID, 0))
	s.down("n3")
	s.refused(s.detach("n3"), "")
	s.fence("n3", "n1")
	if err := s.nodes["n3"].Write(v.UUID, 0); err == nil {
		t.Error("a fenced node writes")
	}
	s.must(s.detach("n3"))
	_, err = s.Attach(t.Context(), s.ref, "a", "n2")
	s.must(err)
	s.must(s.nodes["n2"].Write(v.UUID, 4*mib))
	s.must(s.detach("n2"))
	s.refused(s.Remove(t.Context(), s.ref, "a", v.UUID), "may still read volume a: boot it")
	// Its network comes back, and not another boot.
	s.agents["n3"].Restart(t)
	s.up("n3")
	s.refused(s.Remove(t.Context(), s.ref, "a", v.UUID), "may still read volume a: boot it")
	s.nodes["n3"].Boot(t, 4)
	s.must(s.Remove(t.Context(), s.ref, "a", v.UUID))
	if g := s.lun.Group(); len(g.Volumes) > 0 {
		t.Errorf("%+v", g)
	}
}

// TestWire_register: what an agent says of a request to register that it refused is told on, and that one was never sent. That one has no answer is not.
func TestWire_register(t *testing.T) {
	s := newSite(t)
	grant := func(key uint64) sharedlun.Grant {
		return sharedlun.Grant{Key: key, BootID: s.nodes["n2"].BootID(), Initiator: "iqn.2026-01.storage.quarry:n2"}
	}
	register := func(key uint64) error {
		_, err := s.calls.Register(t.Context(), "n2", s.ref.Lun, grant(key))
		return err
	}
	s.must(register(2))
	if err := register(7); err == nil || !san.Answered(err) {
		t.Errorf("refused: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.calls.Register(ctx, "n2", s.ref.Lun, grant(2)); err == nil || san.Answered(err) {
		t.Errorf("called off: %v", err)
	}
	s.agents["n2"].Kill()
	if err := register(2); err == nil || san.Answered(err) && s.calls.Pool.Node("n2").Up() {
		t.Errorf("the agent is gone: %v", err)
	}
	if _, err := s.calls.Register(t.Context(), "n9", s.ref.Lun, grant(2)); err == nil || !san.Answered(err) {
		t.Errorf("never sent: %v", err)
	}
}
