package access

import (
	"net"
	"slices"
	"sync"
)

// Limit returns a listener with at most so many connections. When there are as many, a new one takes the place of the oldest that has not shown a
// certificate yet; where all have, the new one is closed. So whoever has no certificate keeps nobody out who has one.
func Limit(inner net.Listener, most int) net.Listener {
	return &limiter{Listener: inner, most: most}
}

type limiter struct {
	net.Listener
	most int

	mu sync.Mutex
	// open connections, the oldest first.
	open []*limited
}

// limited is one connection.
type limited struct {
	net.Conn
	of *limiter
	// proven is true once the client has shown a certificate. The limiter's lock guards it.
	proven bool
}

// Accept implements net.Listener.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limited{Conn: inner, of: l}
		victim, ok := l.admit(c)
		if victim != nil {
			_ = victim.Conn.Close() // Its reader sees the end.
		}
		if ok {
			return c, nil
		}
		_ = inner.Close() // Nobody uses it.
	}
}

// admit makes room for a connection. It returns the one that has to go for it, and reports whether there is room.
func (l *limiter) admit(c *limited) (victim *limited, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		i := slices.IndexFunc(l.open, func(o *limited) bool { return !o.proven })
		if i < 0 {
			return nil, false
		}
		victim = l.open[i]
		l.open = slices.Delete(l.open, i, i+1)
	}
	l.open = append(l.open, c)
	return victim, true
}

// prove notes that the client has shown a certificate.
func (c *limited) prove() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.proven = true
}

// Close ends the connection and gives its place back.
func (c *limited) Close() error {
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(o *limited) bool { return o == c })
	c.of.mu.Unlock()
	return c.Conn.Close()
}
