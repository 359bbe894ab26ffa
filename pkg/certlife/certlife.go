// Package certlife ends connections with their certificates. TLS looks at a certificate when a connection begins and never again, and connections
// between controller and agents last for weeks. Each side ends those whose other side's certificate has expired.
package certlife

import (
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// conn is a connection with an end.
type conn struct {
	net.Conn
	timer *time.Timer
}

// Close ends the connection.
func (c *conn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}

// Bound returns a connection that closes when the first certificate of the peer's verified chain expires. info is what the handshake returned; a
// connection without a verified chain is closed at once.
func Bound(inner net.Conn, info credentials.AuthInfo) net.Conn {
	end := time.Now()
	if t, ok := info.(credentials.TLSInfo); ok && len(t.State.VerifiedChains) > 0 {
		for i, c := range t.State.VerifiedChains[0] {
			if i == 0 || c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
	}
	// The error of a connection that is closed is of no interest to anybody.
	return &conn{Conn: inner, timer: time.AfterFunc(time.Until(end), func() { _ = inner.Close() })}
}
