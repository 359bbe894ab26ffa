package sharedgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Node is one node that sees all LUNs of a SAN. Its service is the agent's real one.
type Node struct {
	*sharedgroup.Service
	name string
	san  *SAN
	key  uint64
	// promised outlives boots; mapped does not.
	promised map[string]uint64
	mapped   map[string]*mapped // by volume
	zeroing  map[string]*mapped // by volume: devices of their own
	boot     int
	// renumbered counts how often LUNs got other device numbers; renumberIn is after how many lookups they do.
	renumbered, renumberIn int
	blind                  bool // it sees no LUN
	fault                  func(point) error
	gate                   chan struct{} // writes of LVM wait here; nil when they do not
	zeroGate               chan struct{} // zeroing waits here before each extent
	lookGate               chan struct{} // whoever looks for the LUN waits here
	looking                int           // who does
	changing               atomic.Int64  // how many calls say that they change something
	running                chan struct{} // closed when the command of LVM that runs is gone; nil when none ran
	left                   chan struct{} // the one that an agent of before left
	mu                     sync.Mutex    // of fault, gates and commands
}

// point is where a fault may strike.
type point int

// A command of LVM before and after its write, a change of a device between any two of its steps, the making of a filesystem in its middle, and each extent of a copy before it is written.
const (
	beforeWrite point = iota
	afterWrite
	deviceStep
	formatStep
	copyStep
)

// AddNode makes a node that has a key: n1, then n2, and so on. Its service ends with the test.
func (s *SAN) AddNode(t testing.TB, key uint64) *Node {
	s.mu.Lock()
	s.nodes++
	name := fmt.Sprintf("n%d", s.nodes)
	s.mu.Unlock()
	n := &Node{name: name, san: s, key: key, promised: map[string]uint64{}, mapped: map[string]*mapped{}, zeroing: map[string]*mapped{}, boot: 1}
	n.start(t.Context())
	t.Cleanup(func() { n.Close() })
	return n
}

func (n *Node) start(ctx context.Context) {
	n.Service = sharedgroup.New(context.WithoutCancel(ctx), sharedgroup.Config{Node: n.name, Luns: luns{n}, Groups: groups{n}, Devices: devices{n}, Filesystems: filesystems{n}, Epochs: epochs{n}, Changing: n.announce})
}

// announce counts a call that changes something, until it ends.
func (n *Node) announce() (end func()) {
	n.changing.Add(1)
	return func() { n.changing.Add(-1) }
}

// Restart starts the agent of the node again: what it keeps in memory only is gone.
func (n *Node) Restart(t testing.TB) {
	n.Close()
	n.start(t.Context())
}

// Crash ends the agent where it is and starts it again. A command of LVM that runs goes on: it hangs in the kernel.
func (n *Node) Crash(t testing.TB) {
	n.mu.Lock()
	n.left = n.running
	n.mu.Unlock()
	t.Cleanup(n.Service.Close)
	n.start(t.Context())
}

// command notes that a command runs, until the returned function is called.
func (n *Node) command() (ended func()) {
	c := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = c
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.left == c {
			n.left = nil
		}
		n.running = nil
		close(c)
	}
}

// Writes reports whether a command of LVM runs on the node.
func (n *Node) Writes() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running != nil
}

// Agent is the service as it runs now.
func (n *Node) Agent() *sharedgroup.Service { return n.Service }

// Key is the key of the node.
func (n *Node) Key() uint64 { return n.key }

// Boot boots the node with another key: its devices are gone, too.
func (n *Node) Boot(t testing.TB, key uint64) {
	n.Restart(t)
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	n.key, n.mapped, n.zeroing = key, map[string]*mapped{}, map[string]*mapped{}
	n.boot++
}

// BootID is the boot of the node.
func (n *Node) BootID() string {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	return fmt.Sprintf("%s-boot-%d", n.name, n.boot)
}

// Blind lets the node see no LUN, or all again.
func (n *Node) Blind(blind bool) {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	n.blind = blind
}

// errKilled is what a command returns that was killed.
var errKilled = fmt.Errorf("%w: killed", sharedlun.ErrUnknown)

// Kill has the next command of LVM killed, before its write, or right after it.
func (n *Node) Kill(after bool) {
	at := beforeWrite
	if after {
		at = afterWrite
	}
	n.once(at, 0)
}

// KillDevice has the next change of a device killed after some of its steps.
func (n *Node) KillDevice(steps int) { n.once(deviceStep, steps) }

// once lets a fault strike once, after it was passed some times.
func (n *Node) once(at point, pass int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = func(p point) error {
		if p != at {
			return nil
		}
		if pass--; pass >= 0 {
			return nil
		}
		n.fault = nil
		return errKilled
	}
}

func (n *Node) strikes(p point) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fault == nil {
		return nil
	}
	return n.fault(p)
}

// Delay holds back what LVM writes on this node until release is called: the write was sent, and is late. The command waits for it.
func (n *Node) Delay() (release func()) { return n.hold(&n.gate) }

// DelayZeroing holds back the zeroing and the copying of volumes before the next extent, and the making of filesystems in its middle.
func (n *Node) DelayZeroing() (release func()) { return n.hold(&n.zeroGate) }

// DelayLooks holds back whoever looks for a LUN, as one does that does not answer. What asks its paths which LUN it is goes on.
func (n *Node) DelayLooks() (release func()) { return n.hold(&n.lookGate) }

func (n *Node) hold(gate *chan struct{}) func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := make(chan struct{})
	*gate = c
	return sync.OnceFunc(func() {
		n.mu.Lock()
		*gate = nil
		n.mu.Unlock()
		close(c)
	})
}

func (n *Node) gated(gate *chan struct{}) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if *gate == nil {
		open := make(chan struct{})
		close(open)
		return open
	}
	return *gate
}

// epochs are the promises of the node.
type epochs struct{ n *Node }

// Promised is the epoch that was promised.
func (e epochs) Promised(owner string) (uint64, error) {
	e.n.san.mu.Lock()
	defer e.n.san.mu.Unlock()
	return e.n.promised[owner], nil
}

// Promise remembers an epoch.
func (e epochs) Promise(owner string, epoch uint64) error {
	e.n.san.mu.Lock()
	defer e.n.san.mu.Unlock()
	e.n.promised[owner] = max(e.n.promised[owner], epoch)
	return nil
}

var _ sharedgroup.Epochs = epochs{}
