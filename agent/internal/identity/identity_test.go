package identity_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/internal/identity"
)

// apiServer is the part of the certificates API that the agent uses.
type apiServer struct {
	t *testing.T
	// answer makes the events of a watch from the request that was created.
	answer  func(created map[string]any) []any
	created atomic.Pointer[map[string]any]
	watches atomic.Int64
}

const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer the-token" {
		w.WriteHeader(http.StatusUnauthorized)
		s.write(w, map[string]any{"kind": "Status", "message": "who are you?"})
		return
	}
	switch {
	case r.Method == http.MethodPost && r.URL.Path == requests:
		var object map[string]any
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			s.t.Errorf("body: %v", err)
		}
		meta := object["metadata"].(map[string]any)
		meta["name"], meta["uid"] = meta["generateName"].(string)+"x1", "uid-1"
		s.created.Store(&object)
		w.WriteHeader(http.StatusCreated)
		s.write(w, object)
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true":
		if got := r.URL.Query().Get("fieldSelector"); got != "metadata.name=quarry-agent-x1" {
			s.t.Errorf("field selector %q", got)
		}
		s.watches.Add(1)
		for _, event := range s.answer(*s.created.Load()) {
			s.write(w, event)
		}
	default:
		http.NotFound(w, r)
	}
}

func (s *apiServer) write(w io.Writer, answer any) {
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Errorf("write: %v", err)
	}
}

// start serves it, and answers the client for it.
func (s *apiServer) start() identity.API {
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ErrorLog = nil
	srv.StartTLS()
	s.t.Cleanup(srv.Close)
	dir := s.t.TempDir()
	api := identity.API{URL: srv.URL, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := errors.Join(os.WriteFile(api.TokenFile, []byte("the-token\n"), 0o600), os.WriteFile(api.CAFile, authority, 0o600)); err != nil {
		s.t.Fatal(err)
	}
	return api
}

func event(kind string, object map[string]any, status map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range object {
		out[k] = v
	}
	out["status"] = status
	return map[string]any{"type": kind, "object": out}
}

func requestOf(t *testing.T, object map[string]any) []byte {
	t.Helper()
	var spec struct {
		Spec struct {
			Request    []byte
			SignerName string
			Usages     []string
		}
	}
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(raw, &spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	if spec.Spec.SignerName != "quarry.storage/agent" || strings.Join(spec.Spec.Usages, ",") != "digital signature,server auth" {
		t.Errorf("spec %+v", spec.Spec)
	}
	return spec.Spec.Request
}

func TestManager_obtainsAndServes(t *testing.T) {
	ca := agenttest.NewCA(t)
	api := &apiServer{t: t}
	api.answer = func(object map[string]any) []any {
		if api.watches.Load() == 1 {
			return []any{event("ADDED", object, map[string]any{})} // and the watch ends: the agent watches again
		}
		chain := ca.Sign(t, requestOf(t, object))
		return []any{event("ADDED", object, map[string]any{}), event("MODIFIED", object, map[string]any{"certificate": chain})}
	}
	m := identity.New(identity.Config{NodeName: "node-1", Signer: api.start(), Log: logr.Discard()})
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), "waiting") {
		t.Errorf("before the first certificate: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.Run(ctx); close(done) }()
	select {
	case <-m.Ready():
	case <-time.After(20 * time.Second):
		t.Fatalf("no certificate: %v", m.Check())
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	handshake(t, m.TLSConfig(), ca.ControllerTLS(t, "node-1"), true)
	handshake(t, m.TLSConfig(), agenttest.NewCA(t).ControllerTLS(t, "node-1"), false)
	handshake(t, m.TLSConfig(), ca.ControllerTLS(t, "node-2"), false)
	cancel()
	<-done
}

// handshake wants it to succeed, or to fail on either side.
func handshake(t *testing.T, server, client *tls.Config, want bool) {
	t.Helper()
	client = client.Clone()
	client.NextProtos = []string{"h2"}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := inner.Accept()
		if err != nil {
			served <- err
			return
		}
		defer conn.Close()
		served <- tls.Server(conn, server).HandshakeContext(t.Context())
	}()
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	dialled := tls.Client(conn, client).HandshakeContext(t.Context())
	if dialled != nil {
		conn.Close()
	}
	if err := errors.Join(dialled, <-served); (err == nil) != want {
		t.Errorf("handshake: %v, want success %t", err, want)
	}
}

func TestAPI_refused(t *testing.T) {
	for name, tt := range map[string]struct {
		status map[string]any
		kind   string
		says   string
	}{
		"denied": {
			map[string]any{"conditions": []any{map[string]any{"type": "Denied", "reason": "Policy", "message": "not this node"}}},
			"ADDED", "is denied: Policy: not this node",
		},
		"failed":  {map[string]any{"conditions": []any{map[string]any{"type": "Failed"}}}, "MODIFIED", "is failed"},
		"deleted": {nil, "DELETED", "was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &apiServer{t: t, answer: func(object map[string]any) []any { return []any{event(tt.kind, object, tt.status)} }}
			if _, err := api.start().Sign(t.Context(), []byte("request")); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("replaced", func(t *testing.T) {
		api := &apiServer{t: t, answer: func(map[string]any) []any {
			return []any{event("ADDED", map[string]any{"metadata": map[string]any{"uid": "uid-2"}}, nil)}
		}}
		if _, err := api.start().Sign(t.Context(), []byte("request")); err == nil || !strings.Contains(err.Error(), "was replaced") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("unauthorized", func(t *testing.T) {
		api := (&apiServer{t: t}).start()
		if err := os.WriteFile(api.TokenFile, []byte("stale"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := api.Sign(t.Context(), []byte("request")); err == nil || !strings.Contains(err.Error(), "401 Unauthorized: who are you?") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("undecided", func(t *testing.T) {
		api := &apiServer{t: t, answer: func(map[string]any) []any { return []any{map[string]any{"type": "ERROR"}} }}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := api.start().Sign(ctx, []byte("request")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("no files", func(t *testing.T) {
		if _, err := (identity.API{URL: "https://127.0.0.1:1"}).Sign(t.Context(), nil); err == nil {
			t.Error("no error")
		}
	})
}
