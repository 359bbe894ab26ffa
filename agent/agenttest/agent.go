// Package agenttest starts the agent's real server, with its services, interceptors and watchers, over a fake host: a model of a
// node's disks that tests fill, plug, format, mount and break. It is for tests of whoever talks to agents. The fake host passes the
// same conformance suite as a real node (package conformance).
package agenttest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"quarry.storage/quarry/agent/agenttest/wire"
	"quarry.storage/quarry/agent/internal/apply"
	csilvm "quarry.storage/quarry/agent/internal/csi/lvm"
	agentnode "quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/quiet"
	"quarry.storage/quarry/agent/internal/server"
	"quarry.storage/quarry/agent/internal/server/sharedgroup"
)

// CA is a certificate authority.
type CA = wire.CA

// Network is a network in memory.
type Network = wire.Network

// NewCA makes a certificate authority.
func NewCA(t testing.TB) *CA { return wire.NewCA(t) }

// CAFromPEM takes an authority that a test has already.
func CAFromPEM(t testing.TB, certPEM, keyPEM []byte) *CA { return wire.CAFromPEM(t, certPEM, keyPEM) }

// Options of an Agent. The zero value is an agent of node "node-1" with an authority of its own, on a port of 127.0.0.1.
type Options struct {
	// NodeName; "node-1" when empty.
	NodeName string
	// CA signs the serving certificate and is what clients are verified against. A new one is made when it is nil.
	CA *CA
	// TLS is the server's configuration; it is made from CA when it is nil.
	TLS *tls.Config
	// Network lets the agent listen in memory, at NodeName, instead of on a port.
	Network *Network
	// Luns are the iSCSI targets that the agent sees; see package agenttest/iscsi. Without them the agent does not serve the services.
	Luns server.Luns
	// Version of the agent; "test" when empty.
	Version string
	// MinSizeBytes below which a disk is refused; 1 GiB when zero.
	MinSizeBytes int64
	// AllowTypes are kinds of virtual devices that are taken.
	AllowTypes []string
	// Quiet is how long a disk has to be left alone before it is tested for users and can be taken; at once when zero.
	Quiet time.Duration
	// KubeletDir is a directory, with a path short enough for sockets, in which the agent serves CSI's node service as it does to a
	// kubelet. Nothing is really mounted. Without it no CSI is served.
	KubeletDir string
	// Shares are the NFS servers that the agent sees; see package agenttest/nfs. Without them the agent does not serve the service.
	Shares server.SharedDirectories
	// SharedGroups are the groups of the LUNs that the agent sees; see package agenttest/sharedgroup. Without them the agent does not serve the
	// service.
	SharedGroups sharedgroup.Groups
	// Log takes the server's log; it is discarded when it is not set.
	Log logr.Logger
}

// Agent is a running agent on a fake host. The host outlives crashes and restarts.
type Agent struct {
	*Host
	CA *CA

	opts Options
	addr string

	mu   sync.Mutex
	life *life
	// kubelet gets the end of the last life's CSI services; the next ones cannot have the socket before.
	kubelet chan error
}

// life is one run of the server.
type life struct {
	cancel   context.CancelFunc
	listener *wire.Listener
	done     chan error
}

// New starts an agent and stops it when the test ends.
func New(t testing.TB, opts Options) *Agent {
	t.Helper()
	if opts.NodeName == "" {
		opts.NodeName = "node-1"
	}
	if opts.Version == "" {
		opts.Version = "test"
	}
	if opts.MinSizeBytes == 0 {
		opts.MinSizeBytes = 1 << 30
	}
	if opts.CA == nil {
		opts.CA = NewCA(t)
	}
	if opts.TLS == nil {
		opts.TLS = opts.CA.ServerTLS(t, opts.NodeName)
	}
	a := &Agent{Host: newHost(opts.NodeName, opts.KubeletDir), CA: opts.CA, opts: opts, addr: "127.0.0.1:0"}
	a.faults.kill = a.die
	if err := a.start(); err != nil {
		t.Fatalf("start agent of %s: %v", opts.NodeName, err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Errorf("stop agent of %s: %v", opts.NodeName, err)
		}
	})
	return a
}

// Addr is where the agent listens; it stays the same over restarts.
func (a *Agent) Addr() string { return a.addr }

// BootIDOf is what the agent of a node says of its boot.
func BootIDOf(nodeName string) string { return fakeUUID("boot", nodeName) }

// NodeName of the agent.
func (a *Agent) NodeName() string { return a.opts.NodeName }

// Restart starts the agent again after a crash, or stops it first when it runs. The host stays as it is.
func (a *Agent) Restart(t testing.TB) {
	t.Helper()
	if err := errors.Join(a.Stop(), a.start()); err != nil {
		t.Fatalf("restart agent of %s: %v", a.opts.NodeName, err)
	}
}

// Stop stops the agent; calls in progress end first. It does nothing when the agent does not run.
func (a *Agent) Stop() error {
	a.mu.Lock()
	l := a.life
	a.life = nil
	a.mu.Unlock()
	if l == nil {
		return a.kubeletEnd()
	}
	a.Resume()
	l.cancel()
	return errors.Join(<-l.done, a.kubeletEnd())
}

// kubeletEnd waits for the end of the CSI services, if there are any.
func (a *Agent) kubeletEnd() error {
	a.mu.Lock()
	done := a.kubelet
	a.kubelet = nil
	a.mu.Unlock()
	if done == nil {
		return nil
	}
	return <-done
}

// Kill ends the agent at once: connections break, calls in progress have no further effect.
func (a *Agent) Kill() {
	a.Host.mu.Lock()
	a.faults.life++
	a.Host.mu.Unlock()
	a.die()
}

// die breaks all connections without waiting for anything.
func (a *Agent) die() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life == nil {
		return
	}
	a.life.listener.BreakAll()
	a.life.cancel()
	a.life = nil
}

// Dial connects to the agent with the controller's certificate. The connection is closed when the test ends.
func (a *Agent) Dial(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(a.CA.ControllerTLS(t, a.opts.NodeName))),
	}, opts...)
	if a.opts.Network != nil {
		opts = append(opts, grpc.WithContextDialer(a.opts.Network.Dial))
	}
	conn, err := grpc.NewClient("passthrough:///"+a.addr, opts...)
	if err != nil {
		t.Fatalf("dial agent of %s: %v", a.opts.NodeName, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (a *Agent) start() error {
	if err := a.kubeletEnd(); err != nil {
		return err
	}
	inner, err := a.listen()
	if err != nil {
		return err
	}
	a.Host.mu.Lock()
	s := session{Host: a.Host, life: a.faults.life}
	a.Host.mu.Unlock()
	policy := plan.Policy{MinSizeBytes: a.opts.MinSizeBytes, AllowTypes: a.opts.AllowTypes}
	watcher := quiet.New(quiet.Config{Source: s, Devices: s, Guard: s, Policy: policy, Quiet: a.opts.Quiet, Log: a.opts.Log})
	engine := agentnode.New(agentnode.Config{
		Policy: policy, Observer: watcher, Looker: s, Groups: s, Applier: apply.Applier{Adapter: s, Guard: watcher}, Resolve: a.resolve,
		Contents: csilvm.Contents{Devices: node{session: s}, Filesystems: node{session: s}},
	})
	srv := server.New(server.Config{
		Luns:     a.opts.Luns,
		NodeName: a.opts.NodeName, Version: a.opts.Version, KernelRelease: "6.12.0-fake", BootID: fakeUUID("boot", a.opts.NodeName),
		Node: engine, LVM: s, Shares: a.opts.Shares, SharedGroups: a.opts.SharedGroups, Uptime: func() (time.Duration, error) { return time.Since(a.booted), nil }, Now: a.now, Log: a.opts.Log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{cancel: cancel, listener: inner, done: make(chan error, 1)}
	a.mu.Lock()
	a.addr, a.life = inner.Address(), l
	a.mu.Unlock()
	go func() { l.done <- srv.Serve(ctx, inner, a.opts.TLS) }()
	if a.opts.KubeletDir == "" {
		return nil
	}
	done, err := a.serveKubelet(ctx, s, engine)
	a.mu.Lock()
	a.kubelet = done
	a.mu.Unlock()
	return err
}

func (a *Agent) listen() (*wire.Listener, error) {
	if a.opts.Network != nil {
		return a.opts.Network.Listen(a.opts.NodeName)
	}
	inner, err := net.Listen("tcp", a.addr)
	if err != nil {
		return nil, err
	}
	return wire.NewListener(inner, inner.Addr().String()), nil
}

// WriteVolume writes a text all over a linear volume, as its user does. It stays on the disks until somebody zeroes it.
func (h *Host) WriteVolume(groupName, name, text string) {
	h.onVolume(groupName, name, func(v *volume) {
		if h.written == nil {
			h.written = map[place]string{}
		}
		for _, p := range v.places(0, v.SizeBytes) {
			h.written[p] = text
		}
	})
}

// ReadVolume reads a linear volume: the texts that are there, ordered, each once.
func (h *Host) ReadVolume(groupName, name string) []string {
	var out []string
	h.onVolume(groupName, name, func(v *volume) {
		for _, p := range v.places(0, v.SizeBytes) {
			if text := h.written[p]; text != "" {
				out = append(out, text)
			}
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// Disks returns the kernel names of all disks, those that are unplugged too; ordered.
func (h *Host) Disks() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for name := range h.disks {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Alive reports whether the agent runs: it may have died in a step.
func (a *Agent) Alive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.life != nil
}
