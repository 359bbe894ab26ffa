// Package nfs works on NFS shares from this node: it looks at them, makes and removes directories of volumes, and mounts and unmounts
// such directories for pods. A server that is gone never keeps it: whatever waits for a server runs in a process of its own, which is
// killed at its deadline, and whoever asks for the same share again meanwhile is refused at once. It knows nothing of who asks.
package nfs

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Config is what a Client is made of.
type Config struct {
	// NodeName is told in messages.
	NodeName string
	// Namespace is the network namespace that shares are mounted in: the one of the host.
	Namespace string
	// Start starts a process of a task; the agent's own program when nil.
	Start task.Start
	// Resolve finds the addresses of a host; the system's resolver when nil.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Limits bound what is waited for. Each has a default.
	Limits Limits
	Log    logr.Logger
}

// Limits bound what is waited for.
type Limits struct {
	// Resolve bounds the search for the addresses of a server, Mount the mounting of a share, Call one call on a mounted share.
	Resolve, Mount, Call time.Duration
	// Look bounds a look at a share, with what it takes to mount it. It is shorter than Call: who looks is told soon, and what the look waits for
	// goes on, for the server may be slow, and others may work on the share.
	Look time.Duration
	// Slice is how long a removal goes on in one call.
	Slice time.Duration
	// Unmount bounds one unmount.
	Unmount time.Duration
	// Idle is how long a share stays mounted when nobody asks.
	Idle time.Duration
	// Measure bounds the measuring of a mount of a pod.
	Measure time.Duration
	// Processes bounds the processes at a time; Hanging bounds the processes that were killed and still wait for one server.
	Processes, Hanging int
	// Calls bounds the calls in progress on one share, without looks.
	Calls int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Resolve: cmp.Or(l.Resolve, 5*time.Second), Mount: cmp.Or(l.Mount, 15*time.Second), Call: cmp.Or(l.Call, 15*time.Second),
		Look: cmp.Or(l.Look, sharedvolume.LookTime), Slice: cmp.Or(l.Slice, 15*time.Second), Unmount: cmp.Or(l.Unmount, 20*time.Second), Idle: cmp.Or(l.Idle, 2*time.Minute),
		Measure: cmp.Or(l.Measure, 5*time.Second), Processes: cmp.Or(l.Processes, 128), Hanging: cmp.Or(l.Hanging, 8),
		Calls: cmp.Or(l.Calls, 16),
	}
}

// most is how many calls on one share may be in progress when another one begins; 0 sets no bound. A look is bounded by whoever looks, and has to find out how the
// share is while others work on it. Removals take long, and leave room for volumes that are made.
func (l Limits) most(o child.Operation) int {
	switch o {
	case child.Look, child.Prepare:
		return 0
	case child.Remove:
		return l.Calls - l.Calls/4
	}
	return l.Calls
}

// Client works on shares.
type Client struct {
	cfg Config

	mu sync.Mutex
	// shares are the mounted ones, by what they are mounted with.
	shares map[string]*mounted
	// busy are the volumes, and the looks at shares, that a call works on.
	busy   map[string]bool
	closed bool
	// room is what the processes of shares and of tasks have together.
	room  *task.Room
	tasks *task.Table
}

// New makes a Client.
func New(cfg Config) *Client {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Start == nil {
		cfg.Start = task.Program(child.Command, cfg.Namespace)
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	room := task.NewRoom(cfg.Limits.Processes)
	return &Client{
		cfg: cfg, shares: map[string]*mounted{}, busy: map[string]bool{},
		room: room, tasks: task.NewTable(cfg.Start, room, cfg.Limits.Hanging, cfg.Log),
	}
}

// Close unmounts what this package mounted for itself. Mounts of pods stay.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, m := range c.shares {
		m.end()
	}
}

// lock refuses a second call on the same thing.
func (c *Client) lock(key string) (unlock func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[key] {
		return nil, fmt.Errorf("%s: %w", key, sharedvolume.ErrBusy)
	}
	c.busy[key] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, key)
	}, nil
}

// addresses finds where a host is. An address is itself.
func (c *Client) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Limits.Resolve)
	defer cancel()
	list, err := c.cfg.Resolve(ctx, host)
	if err != nil {
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonNameUnresolved, "The name of server %s cannot be resolved: %v.", host, err)
	}
	if len(list) == 0 {
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonNameUnresolved, "The name of server %s has no address.", host)
	}
	for i := range list {
		list[i] = list[i].Unmap()
	}
	return list, nil
}
