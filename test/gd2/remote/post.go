package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// Post serves one server of a Hub.
type Post struct {
	// Hub is the address of the Hub, as a URL.
	Hub  string
	Name string
	// Registration is how the server is set up.
	Registration Registration
	// Client and Peer are where clients and other servers reach it. Nobody speaks to Peer: that it listens is what the others look for.
	Client, Peer net.Listener
	// Certificate has it speak TLS.
	Certificate *tls.Certificate
	// Store reports whether the store of the pool answers; nil where the Hub knows it.
	Store func(context.Context) bool
}

// Run serves until the context ends, and then stops the server in order. It ends with an error if the server ends by itself.
func (p *Post) Run(ctx context.Context) error {
	body, err := json.Marshal(p.Registration)
	if err != nil {
		return err
	}
	if err := p.tell(ctx, http.MethodPut, "", body); err != nil {
		return err
	}
	front, err := p.front()
	if err != nil {
		return err
	}
	l := p.Client
	if p.Certificate != nil {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*p.Certificate}})
	}
	ended := make(chan error, 2)
	go func() { ended <- front.Serve(l) }()
	go p.greet()
	go func() { ended <- p.live(ctx) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		// The one request that is made after the end has a time of its own.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = p.tell(last, http.MethodDelete, "", nil)
	}
	front.Close()
	p.Peer.Close()
	return err
}

// front passes requests on as they are. What gets no answer there gets none here.
func (p *Post) front() (*http.Server, error) {
	to, err := url.Parse(p.Hub)
	if err != nil {
		return nil, err
	}
	return &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
			r.Out.Header.Set(nodeHeader, p.Name)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
		},
	}}, nil
}

// greet takes connections of other servers.
func (p *Post) greet() {
	for {
		c, err := p.Peer.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}

// live says that the server lives, and whether its store answers, until it does not.
func (p *Post) live(ctx context.Context) error {
	var away atomic.Bool
	if p.Store != nil {
		// To ask takes long while the store is away, and that the server lives is said all the time.
		go func() {
			for ctx.Err() == nil {
				away.Store(!p.Store(ctx))
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		path := "/alive"
		if away.Load() {
			path += "?store=away"
		}
		if err := p.tell(ctx, http.MethodPost, path, nil); errors.Is(err, errGone) {
			return err
		}
	}
}

var errGone = errors.New("the server ended")

func (p *Post) tell(ctx context.Context, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, p.Hub+"/nodes/"+url.PathEscape(p.Name)+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("tell the hub: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
	switch {
	case err != nil:
		return fmt.Errorf("tell the hub: %w", err)
	case resp.StatusCode == http.StatusGone:
		return errGone
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("tell the hub: status %d: %s", resp.StatusCode, text)
	}
	return nil
}
