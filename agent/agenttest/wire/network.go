package wire

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// connBufferBytes of one in-memory connection and direction.
const connBufferBytes = 16 << 10

// Network lets many agents listen in memory, each at its node's name, for tests with thousands of nodes. The zero value is ready.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
}

// Dial connects to the agent at that address; it fits grpc.WithContextDialer.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: connection refused", addr)
	}
	return l.DialContext(ctx)
}

// Listen listens at an address, in place of who did before.
func (n *Network) Listen(addr string) (*Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*bufconn.Listener{}
	}
	inner := bufconn.Listen(connBufferBytes)
	n.listeners[addr] = inner
	return NewListener(inner, addr), nil
}

// Listener remembers its connections, so that all can be broken at once.
type Listener struct {
	net.Listener
	addr string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	broken bool
}

// NewListener remembers the connections of another listener, whose address is told.
func NewListener(inner net.Listener, addr string) *Listener {
	return &Listener{Listener: inner, addr: addr, conns: map[net.Conn]bool{}}
}

// Address is where it listens.
func (l *Listener) Address() string { return l.addr }

// Accept remembers the connection until it is closed.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, owner: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	if l.broken {
		inner.Close()
	}
	return c, nil
}

// BreakAll ends the listener and all of its connections at once.
func (l *Listener) BreakAll() {
	l.Listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for c := range l.conns {
		c.(*conn).Conn.Close()
	}
}

// conn is forgotten by its listener when it closes.
type conn struct {
	net.Conn
	owner *Listener
}

// Close closes the connection.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
