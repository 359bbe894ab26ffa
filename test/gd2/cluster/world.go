// Package cluster is a model of servers of Gluster (glusterd2) and of what they share: peers, zones, devices, options, locks, liveness and a store that
// may be out of reach. It is held to answers that were recorded from real servers, see package recorded.
package cluster

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"
)

// Config is what a World is made with.
type Config struct {
	// Clock is by which leases end and calls give up. Nil means the real one.
	Clock clock.Clock
	// IDs makes UUIDs. Nil means random ones.
	IDs func() string
	// Embedded has the servers keep the store themselves, as members of etcd. Otherwise an etcd of its own keeps it.
	Embedded bool
	// Lease is how long a server that died counts as online. Zero means 29 seconds.
	Lease time.Duration
	// HealBroken has every heal fail, as where the self-heal daemon does not know the protocol of glusterd2.
	HealBroken bool
	// HealTime is how long it takes until what is pending is healed. Zero means 5 seconds.
	HealTime time.Duration
	// LeaveTime is how long a server needs to leave. Zero means 5 seconds, and 1 if it keeps the store itself.
	LeaveTime time.Duration
	// NewUnmarked has the bricks of a volume not marked with what a new one lacks, so that only a heal of the whole volume fills it. No recording says
	// whether they are: the only volume that was looked at was empty (w033).
	NewUnmarked bool
}

// World has the servers. Its exported methods may be called at any time.
type World struct {
	cfg      Config
	mu       sync.Mutex
	changed  chan struct{}
	closed   chan struct{}
	nodes    []*Node
	clusters map[string]*Cluster
	hosts    map[string]string
	frozen   bool
	nextPID  int
	started  int
	busy     int
	waits    map[*wait]bool
	strange  []string
}

// New makes a World without servers.
func New(cfg Config) *World {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.IDs == nil {
		cfg.IDs = uuid.NewString
	}
	if cfg.Lease == 0 {
		cfg.Lease = 29 * time.Second
	}
	if cfg.HealTime == 0 {
		cfg.HealTime = 5 * time.Second
	}
	if cfg.LeaveTime == 0 {
		cfg.LeaveTime = 5 * time.Second
		if cfg.Embedded {
			cfg.LeaveTime = time.Second
		}
	}
	return &World{
		cfg: cfg, changed: make(chan struct{}), closed: make(chan struct{}), clusters: map[string]*Cluster{}, hosts: map[string]string{}, nextPID: 7000,
		waits: map[*wait]bool{},
	}
}

// Close ends all calls that wait.
func (w *World) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
}

// Do runs f with the World standing still.
func (w *World) Do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.touch()
}

// Alias has a host name stand for an address.
func (w *World) Alias(name, address string) { w.Do(func() { w.hosts[name] = address }) }

// Node returns the server with a name.
func (w *World) Node(name string) *Node {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// FreezeStore puts the external etcd out of reach.
func (w *World) FreezeStore() { w.Do(func() { w.frozen = true }) }

// ThawStore brings the external etcd back. The servers named register anew a moment later, and count as offline until then.
func (w *World) ThawStore(late ...string) {
	w.Do(func() {
		w.frozen = false
		for _, name := range late {
			w.Node(name).late = w.cfg.Clock.Now().Add(100 * time.Millisecond)
		}
	})
}

// SetLease sets how long a server that dies from now on counts as online.
func (w *World) SetLease(d time.Duration) { w.Do(func() { w.cfg.Lease = d }) }

// Load says what the calls do.
type Load struct {
	// Begun is how many calls have begun so far.
	Begun int
	// Busy is how many calls neither wait nor have ended. A call whose wait is over is busy, even if it has not been given the processor yet.
	Busy int
	// Waiting is how many calls with a client wait for time to pass, or for another call.
	Waiting int
}

// Load returns what the calls do.
func (w *World) Load() Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := Load{Begun: w.started, Busy: w.busy}
	for one := range w.waits {
		switch {
		case one.over(w):
			out.Busy++
		case one.client.Err() == nil:
			out.Waiting++
		}
	}
	return out
}

// Strange returns what was asked that no client of ours should ask: unknown paths, unknown fields.
func (w *World) Strange() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.strange
}

// HealBroken reports whether heals fail.
func (w *World) HealBroken() bool { return w.cfg.HealBroken }

// HealTime returns how long healing takes.
func (w *World) HealTime() time.Duration { return w.cfg.HealTime }

// SetHealTime sets how long healing takes from now on.
func (w *World) SetHealTime(d time.Duration) { w.Do(func() { w.cfg.HealTime = d }) }

// NewUnmarked reports whether what a new brick lacks is not marked.
func (w *World) NewUnmarked() bool { return w.cfg.NewUnmarked }

// touch tells those that wait to look again.
func (w *World) touch() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *World) now() time.Time { return w.cfg.Clock.Now() }

func (w *World) pid() int {
	w.nextPID++
	return w.nextPID
}
