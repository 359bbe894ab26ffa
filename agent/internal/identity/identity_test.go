package identity_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
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
	// answer gives the status of the request, each time that it is asked for; nil when the request is gone.
	answer  func(created map[string]any) map[string]any
	created atomic.Pointer[map[string]any]
	looks   atomic.Int64
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
		if name, _ := meta["name"].(string); len(name) != len("quarry-agent-")+36 {
			s.t.Errorf("name %q could be guessed", name)
		}
		meta["uid"] = "uid-1"
		s.created.Store(&object)
		w.WriteHeader(http.StatusCreated)
		s.write(w, object)
	case r.Method == http.MethodGet && s.created.Load() != nil:
		object := maps.Clone(*s.created.Load())
		if want := requests + "/" + object["metadata"].(map[string]any)["name"].(string); r.URL.Path != want || r.URL.RawQuery != "" {
			s.t.Errorf("asked for %s, want %s", r.URL, want)
		}
		s.looks.Add(1)
		status := s.answer(object)
		if status == nil {
			http.NotFound(w, r)
			return
		}
		if uid, ok := status["uid"]; ok {
			object["metadata"] = map[string]any{"uid": uid}
		}
		object["status"] = status
		s.write(w, object)
	default:
		http.NotFound(w, r)
	}
}

func (s *apiServer) write(w io.Writer, answer any) {
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Errorf("write: %v", err)
	}
}

// start serves it, and returns the client for it.
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
	api.answer = func(object map[string]any) map[string]any {
		if api.looks.Load() < 3 {
			return map[string]any{} // Undecided: the agent looks again.
		}
		return map[string]any{"certificate": ca.Sign(t, requestOf(t, object))}
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
	_ = handshake(t, m.TLSConfig(), ca.ControllerTLS(t, "node-1"), true)
	_ = handshake(t, m.TLSConfig(), agenttest.NewCA(t).ControllerTLS(t, "node-1"), false)
	_ = handshake(t, m.TLSConfig(), ca.ControllerTLS(t, "node-2"), false)
	cancel()
	<-done
}

// handshake wants it to succeed, or to fail on either side. It returns the server's error.
func handshake(t *testing.T, server, client *tls.Config, want bool) error {
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
	failed := <-served
	if err := errors.Join(dialled, failed); (err == nil) != want {
		t.Errorf("handshake: %v, want success %t", err, want)
	}
	return failed
}

// TestManager_asksAnewWhenTheAuthorityIsUnknown: the CA was replaced. The agent learns it from handshakes that fail, and does not let itself be
// driven by them.
func TestManager_asksAnewWhenTheAuthorityIsUnknown(t *testing.T) {
	old, fresh := agenttest.NewCA(t), agenttest.NewCA(t)
	node := "10.1.2.3"
	knowsNobody := fresh.ControllerTLS(t, node)
	knowsNobody.RootCAs = old.Pool()
	for name, client := range map[string]*tls.Config{
		"the client does not know ours": fresh.ControllerTLS(t, node),
		"we do not know the client's":   knowsNobody,
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			api := &apiServer{t: t}
			api.answer = func(object map[string]any) map[string]any {
				if asked.Add(1) == 1 {
					return map[string]any{"certificate": old.Sign(t, requestOf(t, object))}
				}
				return map[string]any{"certificate": fresh.Sign(t, requestOf(t, object))}
			}
			m := identity.New(identity.Config{NodeName: node, Signer: api.start(), Log: logr.Discard()})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { m.Run(ctx); close(done) }()
			<-m.Ready()
			m.Doubt(errors.New("a scanner"))
			m.Doubt(handshake(t, m.TLSConfig(), &tls.Config{RootCAs: old.Pool(), ServerName: node}, false))
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
			m.Doubt(handshake(t, m.TLSConfig(), client, false))
			for deadline := time.Now().Add(10 * time.Second); asked.Load() < 2 && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond) // The answer is in, and has to be taken.
			_ = handshake(t, m.TLSConfig(), fresh.ControllerTLS(t, node), true)
			for range 5 {
				m.Doubt(handshake(t, m.TLSConfig(), agenttest.NewCA(t).ControllerTLS(t, node), false))
			}
			time.Sleep(100 * time.Millisecond)
			if n := asked.Load(); n != 2 {
				t.Errorf("asked %d times", n)
			}
			cancel()
			<-done
		})
	}
}

func TestAPI_refused(t *testing.T) {
	for name, tt := range map[string]struct {
		status map[string]any
		says   string
	}{
		"denied": {
			map[string]any{"conditions": []any{map[string]any{"type": "Denied", "reason": "Policy", "message": "not this node"}}},
			"is denied: Policy: not this node",
		},
		"failed":   {map[string]any{"conditions": []any{map[string]any{"type": "Failed"}}}, "is failed"},
		"deleted":  {nil, "404"},
		"replaced": {map[string]any{"uid": "uid-2"}, "was replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &apiServer{t: t, answer: func(map[string]any) map[string]any { return tt.status }}
			if _, err := api.start().Sign(t.Context(), []byte("request")); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
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
		api := &apiServer{t: t, answer: func(map[string]any) map[string]any { return map[string]any{} }}
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
