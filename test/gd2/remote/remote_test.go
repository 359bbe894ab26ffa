package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
)

// pod is a Post that runs.
type pod struct {
	url, peer string
	stop      func() error
}

func start(t *testing.T, hub, name string) pod {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	p := &Post{Hub: hub, Name: name, Client: listen(), Peer: listen()}
	p.Registration = Registration{PeerAddress: p.Peer.Addr().String(), ClientAddress: p.Client.Addr().String(), Devices: map[string]uint64{"/dev/xvda": 10 << 30}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	out := pod{url: "http://" + p.Registration.ClientAddress, peer: p.Registration.PeerAddress, stop: func() error { cancel(); return <-done }}
	t.Cleanup(cancel)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if status, _ := ask(t, http.MethodGet, out.url+"/ping", ""); status == http.StatusOK {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer", name)
		}
	}
}

func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

func TestPosts_serveOneCluster(t *testing.T) {
	w := cluster.New(cluster.Config{})
	defer w.Close()
	h := NewHub(w)
	hub := httptest.NewServer(h)
	defer hub.Close()
	a, b := start(t, hub.URL, "a"), start(t, hub.URL, "b")
	if status, text := ask(t, http.MethodPost, a.url+"/v1/peers", fmt.Sprintf(`{"addresses":[%q],"zone":"z2"}`, b.peer)); status != http.StatusCreated {
		t.Fatal(status, text)
	}
	online := func() int {
		status, text := ask(t, http.MethodGet, a.url+"/v1/peers", "")
		var list []cluster.Peer
		if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK || len(list) != 2 {
			t.Fatal(status, text, err)
		}
		n := 0
		for _, p := range list {
			if p.Online {
				n++
			}
		}
		return n
	}
	if n := online(); n != 2 {
		t.Errorf("%d are online, want 2", n)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if n := online(); n != 1 {
		t.Errorf("%d are online after one was stopped, want 1", n)
	}
	start(t, hub.URL, "b")
	if n := online(); n != 2 {
		t.Errorf("%d are online after it came back, want 2", n)
	}
	if status, text := ask(t, http.MethodGet, a.url+"/v1/nosuch", ""); status != http.StatusNotFound || text != "404 page not found\n" {
		t.Error(status, text)
	}
	if strange := w.Strange(); len(strange) != 1 {
		t.Errorf("strange are %v, want the path that does not exist", strange)
	}
}

func TestPost_aServerThatDiesGivesNoAnswer(t *testing.T) {
	w := cluster.New(cluster.Config{})
	defer w.Close()
	hub := httptest.NewServer(NewHub(w))
	defer hub.Close()
	a := start(t, hub.URL, "a")
	w.Node("a").Kill()
	if status, text := ask(t, http.MethodGet, a.url+"/v1/peers", ""); status != 0 {
		t.Errorf("status %d %s, want none", status, text)
	}
}
