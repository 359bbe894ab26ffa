// Package gd2 is a stand-in for glusterd2: real HTTP servers over a model of their cluster (package cluster) and of volumes (package volume). Its answers,
// and when it gives none, are held to those of real servers by package recorded. It is as strict as they are, and notes what no client of
// ours should send: World.Strange.
package gd2

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"quarry.storage/quarry/test/gd2/cluster"
)

// Server serves the API of one server of the World.
type Server struct {
	World *cluster.World
	Node  *cluster.Node

	intercept atomic.Pointer[Interceptor]
}

// Interceptor may answer in the place of a server, and then returns true. It is for answers that are garbage, cut, lost or of another program.
type Interceptor func(w http.ResponseWriter, r *http.Request) bool

// Intercept has an Interceptor see each request first. Nil ends that.
func (s *Server) Intercept(by Interceptor) { s.intercept.Store(&by) }

const maxBody = 1 << 20

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if by := s.intercept.Load(); by != nil && *by != nil && (*by)(w, r) {
		return
	}
	s.Answer(w, r)
}

// Answer answers a request without the Interceptor.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	c := s.World.BeginFor(r.Context(), s.Node)
	if c == nil {
		hangUp(w)
		return
	}
	a, answered := s.work(c, r, body)
	if !answered {
		hangUp(w)
		return
	}
	a.send(w)
}

// work lets the model answer. It reports false if the server ended over it.
func (s *Server) work(c *cluster.Call, r *http.Request, body []byte) (a answer, answered bool) {
	defer c.End()
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case cluster.Died:
			a, answered = answer{}, false
		default:
			panic(p)
		}
	}()
	from := [2]string{c.N.ID(), c.C.ID}
	a = s.answer(c, r, body)
	a.peer, a.cluster = from[0], from[1]
	return a, true
}

func (s *Server) answer(c *cluster.Call, r *http.Request, body []byte) answer {
	if c.N.Secret != nil && r.URL.String() != "/ping" && r.URL.String() != "/endpoints" {
		switch err := authenticate(r, c.N.Secret, c.Now()); {
		case errors.Is(err, errPanics):
			return answer{status: http.StatusInternalServerError}
		case err != nil:
			return failed(cluster.Fail(http.StatusUnauthorized, "%s", err))
		}
	}
	return route(c, r, body)
}

// hangUp ends a connection without an answer.
func hangUp(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			conn.Close()
		}
	}
}

// Serve answers on a listener until it is closed. A certificate has it speak TLS alone, and it then ends connections of plain HTTP.
func (s *Server) Serve(l net.Listener, certificate *tls.Certificate) error {
	if certificate != nil {
		l = &secure{Listener: l, config: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}}}
	}
	err := (&http.Server{Handler: s}).Serve(l)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve Gluster server %s: %w", s.Node.Name, err)
}

// secure makes connections of TLS whose type net/http does not know: it would answer plain HTTP.
type secure struct {
	net.Listener
	config *tls.Config
}

func (l *secure) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{tls.Server(c, l.config)}, nil
}

// answer is what a request gets.
type answer struct {
	status   int
	text     string
	kind     string
	location string

	peer, cluster string
}

const jsonKind = "application/json; charset=UTF-8"

// ok writes the body at once, as long as the World stands still.
func ok(status int, body any) answer {
	return answer{status: status, text: encode(body), kind: jsonKind}
}

func failed(f *cluster.Failure) answer { return ok(f.Status, f) }

func empty(status int) answer { return answer{status: status} }

func (a answer) send(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Request-Id", uuid.NewString())
	h.Set("X-Gluster-Peer-Id", a.peer)
	h.Set("X-Gluster-Cluster-Id", a.cluster)
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.kind != "" {
		h.Set("Content-Type", a.kind)
	}
	w.WriteHeader(a.status)
	if _, err := io.WriteString(w, a.text); err != nil {
		// The client is gone, which is its affair.
		return
	}
}
