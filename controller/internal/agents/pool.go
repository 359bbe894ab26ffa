// Package agents is the controller's client to the agents of the nodes: one connection per node, two watches on each, the last
// report of every node as values of package decide, and the calls that change disks. It is the only package of the controller
// that knows the wire. It knows nothing of the API server, and decides nothing.
package agents

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/controller/internal/decide"
)

// noAgent is what there is to say about a node whose agent is missing.
const noAgent = "no agent runs on this node"

// Config of a Pool.
type Config struct {
	// TLS returns the configuration for a new connection to the agent of a node. It is asked for every connection, so that
	// renewed certificates are used.
	TLS func(node string) (*tls.Config, error)
	// Dial connects to an address; over TCP when it is nil.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Jitter is by how much of itself the pause between two attempts to connect varies; default 0.2. It does not vary when it is negative.
	Jitter float64
	// RequestID returns the id that a call carries to the agent's log; may be nil.
	RequestID func(ctx context.Context) string
	// GroupsOnly leaves devices out of the reports: agents tell them to the controller only. Node.Devices stays empty then.
	GroupsOnly bool
	// MeantToBeShared reports whether a device is meant to be seen on several nodes, as a LUN of an Iscsi is. Any other one that two nodes see
	// is refused on both. No device is when it is nil.
	MeantToBeShared func(decide.Device) bool
	// MaxReportBytes bounds one report of a node; default 4 MiB, which holds some thousands of devices. A node with a larger one is
	// unreachable.
	MaxReportBytes int
	// Log for what goes on between calls.
	Log logr.Logger
	// Grace is how long a node that was never reached counts as connecting; default 15 s. For a node that the pool was told nothing of it
	// begins with Complete.
	Grace time.Duration
	// Silence is after how long a node that was never reached does not count as connecting any more, if its machine leaves every attempt to connect unanswered; default 4 s. Two attempts count at
	// least: over TCP they take 5.2 s together, and one takes 2.5 s, so that a moment more or less of either changes nothing.
	Silence time.Duration
	// Patience is how long a node counts as up after its connection broke; default 2 s.
	Patience time.Duration
	// Absence is how long a node counts as up after its agent's pod went away; default 10 s.
	Absence time.Duration
}

// Pool keeps a connection to every agent it was told the address of.
type Pool struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	links map[string]*link
	subs  []*subscription
	// complete is when the pool had been told of every node that there is; zero until then.
	complete time.Time
	// holders are kept up to date with every report, so that nobody has to look at all nodes.
	holders *holders
	// sightings are kept up to date in the same way.
	sightings *sightings
	// work counts the goroutines of links and subscriptions.
	work sync.WaitGroup
}

// New returns an empty pool. It ends with the context, or with Close.
func New(ctx context.Context, cfg Config) *Pool {
	cfg.Grace = orDefault(cfg.Grace, 15*time.Second)
	cfg.Silence = orDefault(cfg.Silence, 4*time.Second)
	cfg.Patience = orDefault(cfg.Patience, 2*time.Second)
	cfg.Absence = orDefault(cfg.Absence, 10*time.Second)
	if cfg.MaxReportBytes == 0 {
		cfg.MaxReportBytes = 4 << 20
	}
	if cfg.Jitter == 0 {
		cfg.Jitter = 0.2
	}
	if cfg.Dial == nil {
		cfg.Dial = dialTCP
	}
	if cfg.RequestID == nil {
		cfg.RequestID = func(context.Context) string { return "" }
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Pool{
		cfg: cfg, ctx: ctx, cancel: cancel, links: map[string]*link{}, holders: newHolders(), sightings: newSightings(cfg.MeantToBeShared),
	}
}

// Close ends all connections and waits until nothing of them runs any more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.cancel()
	for _, l := range p.links {
		l.stop()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// SetAddress says where the agent of a node listens, and which pod it is. The same address again changes nothing.
func (p *Pool) SetAddress(node, address, podUID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	p.link(node).dial(address, podUID)
}

// link returns that of a node, a new one for a node that is told of for the first time. The caller holds the lock.
func (p *Pool) link(node string) *link {
	l := p.links[node]
	if l == nil {
		l = newLink(p, node)
		p.links[node] = l
	}
	return l
}

// Remove says that no agent runs on a node. Its last report is kept. A node that is told of for the first time counts as connecting for
// Config.Absence: its agent's pod may be replaced at this moment.
func (p *Pool) Remove(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	p.link(node).leave()
}

// Complete says that SetAddress or Remove was called for every node that there is. A process may run for days before anybody tells it of
// the first one: a standby is told once it leads. Until Complete, and for Config.Grace after it, an unknown node counts as connecting.
// Further calls change nothing.
func (p *Pool) Complete() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.complete.IsZero() {
		p.complete = time.Now()
	}
}

// Forget drops everything about a node that does not exist any more.
func (p *Pool) Forget(node string) {
	p.mu.Lock()
	l := p.links[node]
	delete(p.links, node)
	var changed []string
	if l != nil {
		l.forget()
		changed = []string{node}
	}
	changed = append(changed, p.sightings.set(node, nil)...)
	p.mu.Unlock()
	p.publish(changed...)
}

// Node returns what is known about a node.
func (p *Pool) Node(name string) decide.Node {
	p.mu.Lock()
	l, complete := p.links[name], p.complete
	p.mu.Unlock()
	switch {
	case l != nil:
		return p.sightings.mark(l.node())
	case complete.IsZero() || time.Since(complete) < p.cfg.Grace:
		return decide.Node{Name: name, Agent: decide.AgentConnecting}
	}
	return decide.Node{Name: name, Agent: decide.AgentMissing, Problem: noAgent}
}

// Holders returns the names of the nodes that report, or did when they were last seen, a group of an owner, be it one that names another node; ordered.
func (p *Pool) Holders(ownerUID string) []string { return p.holders.of(ownerUID) }

// Online returns the names of the nodes whose agents answer; ordered.
func (p *Pool) Online() []string {
	p.mu.Lock()
	links := maps.Clone(p.links)
	p.mu.Unlock()
	var names []string
	for name, l := range links {
		if n := l.node(); n.Up() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Changes returns a channel of the names of nodes whose report or connection changed. Every change is told at least once, and
// a name that nobody has read yet is told only once. The channel is closed with the pool.
func (p *Pool) Changes() <-chan string {
	s := newSubscription()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subs = append(p.subs, s)
	for name := range p.links {
		s.add(name)
	}
	p.work.Go(func() { s.run(p.ctx) })
	return s.out
}

func (p *Pool) publish(nodes ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.subs {
		for _, n := range nodes {
			s.add(n)
		}
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
