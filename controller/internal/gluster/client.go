// Package gluster talks to the management servers of Gluster (glusterd2) over their REST API. It says what a server answered, and never more:
// an answer that is late, cut, garbage or not of glusterd2 is an error of the kind Unknown, and only a confirmed answer says that something is
// absent. It knows neither Kubernetes nor what is to be done.
package gluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// User is the one user that glusterd2 knows.
const User = "glustercli"

// DefaultTimeout is how long a call may take. A server needs 20 seconds to say that another peer does not answer, 5 to say that its store or
// a lock cannot be had, and ends connections after 30.
const DefaultTimeout = 30 * time.Second

// Config is what a Client works with.
type Config struct {
	// Secret of the servers, byte for byte: a newline at its end is a part of it. Empty means that the servers ask for none.
	Secret []byte
	// CA is the certificate authority of the servers, in PEM. Servers are then reached by https alone. Empty means http alone.
	CA []byte
	// Timeout of one call. Zero means DefaultTimeout.
	Timeout time.Duration
	// Now is the clock of the tokens. Nil means time.Now.
	Now func() time.Time
}

// Client makes Servers. It keeps no connection and no answer, and is safe for concurrent use.
type Client struct {
	secret  []byte
	secure  bool
	timeout time.Duration
	now     func() time.Time
	http    *http.Client
}

// New makes a Client. It returns an error for a CA that holds no certificate.
func New(cfg Config) (*Client, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	transport := &http.Transport{
		// A connection that was kept may be of a server that was replaced, and a request on it may be sent twice.
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext:        (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		// Proxy stays nil: the environment does not decide where the token goes.
	}
	if len(cfg.CA) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(cfg.CA) {
			return nil, errors.New("the CA of Gluster holds no certificate in PEM: give the certificate of the authority that signed the servers'")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Client{
		secret: cfg.Secret, secure: len(cfg.CA) > 0, timeout: cfg.Timeout, now: cfg.Now,
		http: &http.Client{
			Transport: transport,
			// A redirect turns POST into GET, and its token is for another path.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// At returns the server at an address, which is host:port of glusterd2's client port (24007).
func (c *Client) At(address string) (*Server, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("address %q of a Gluster server: %w", address, err)
	}
	scheme := "http"
	if c.secure {
		scheme = "https"
	}
	return &Server{client: c, base: url.URL{Scheme: scheme, Host: address}}, nil
}

// Server is one glusterd2. All peers of a cluster answer alike but for what depends on who is asked: see RemovePeer and ReplaceBrick.
type Server struct {
	client *Client
	base   url.URL
}

// Address returns host:port of the server.
func (s *Server) Address() string { return s.base.Host }

// Identity is who answered.
type Identity struct {
	Peer    string
	Cluster string
}

// Identify asks the server who it is. It needs no secret and no store, so it says nothing of the server's health.
func (s *Server) Identify(ctx context.Context) (Identity, error) {
	a, err := s.call(ctx, request{op: "identify", method: http.MethodGet, path: "/ping", open: true, status: http.StatusOK})
	return a.from, err
}
