package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

// pod is a Post that runs.
type pod struct {
	url, peer string
	stop      func() error
}

func start(t *testing.T, hub, name string, change ...func(*Post)) pod {
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
	for _, f := range change {
		f(p)
	}
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

// TestPost_theStoreIsAway: while no server reaches the store, nothing is told of the pool. One that reaches it is enough.
func TestPost_theStoreIsAway(t *testing.T) {
	w := cluster.New(cluster.Config{})
	defer w.Close()
	hub := httptest.NewServer(NewHub(w))
	defer hub.Close()
	var here, there atomic.Bool
	here.Store(true)
	a := start(t, hub.URL, "a", func(p *Post) { p.Store = func(context.Context) bool { return here.Load() } })
	start(t, hub.URL, "b", func(p *Post) { p.Store = func(context.Context) bool { return there.Load() } })
	tells := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			status, text := ask(t, http.MethodGet, a.url+"/v1/peers", "")
			if status == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("status %d, want %d: %s", status, want, text)
			}
		}
	}
	// Long enough for the second one to have said that its store is away.
	time.Sleep(3 * time.Second)
	tells(http.StatusOK)
	here.Store(false)
	tells(http.StatusInternalServerError)
	there.Store(true)
	tells(http.StatusOK)
}

// twoBricks has two servers, and the volume v with a copy and a file on each. It returns the IDs of their peers.
func twoBricks(t *testing.T, hub string) (first, second string) {
	t.Helper()
	a, b := start(t, hub, "a"), start(t, hub, "b")
	do := func(want int, url, body string) {
		if status, text := ask(t, http.MethodPost, url, body); status != want {
			t.Fatal(url, status, text)
		}
	}
	do(http.StatusCreated, a.url+"/v1/peers", fmt.Sprintf(`{"addresses":[%q],"zone":"z2"}`, b.peer))
	var peers []cluster.Peer
	if _, text := ask(t, http.MethodGet, a.url+"/v1/peers", ""); json.Unmarshal([]byte(text), &peers) != nil || len(peers) != 2 {
		t.Fatal(text)
	}
	for _, p := range peers {
		if slices.Contains(p.PeerAddresses, b.peer) {
			second = p.ID
		} else {
			first = p.ID
		}
		do(http.StatusCreated, a.url+"/v1/devices/"+p.ID, `{"device":"/dev/xvda","provisioner":"lvm"}`)
	}
	do(http.StatusOK, hub+"/nodes/a/create/v?size=524288000&replica=2", "")
	do(http.StatusOK, hub+"/nodes/a/write/v?file=a", "")
	return first, second
}

// TestHub_content: what a volume has is told, and which brick lacks how much.
func TestHub_content(t *testing.T) {
	w := cluster.New(cluster.Config{})
	defer w.Close()
	hub := httptest.NewServer(NewHub(w))
	defer hub.Close()
	a, b := twoBricks(t, hub.URL)
	content := func() Content {
		status, text := ask(t, http.MethodGet, hub.URL+"/nodes/a/content/v", "")
		out := Content{}
		if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK {
			t.Fatal(status, text, err)
		}
		return out
	}
	if c := content(); !slices.Equal(c.Files, []string{"a"}) || !maps.Equal(c.Bricks, map[string]int{a: 0, b: 0}) {
		t.Errorf("%+v", c)
	}
	w.Node("b").KillBricks()
	if status, text := ask(t, http.MethodPost, hub.URL+"/nodes/a/write/v?file=b", ""); status != http.StatusOK {
		t.Fatal(status, text)
	}
	if c := content(); !slices.Equal(c.Files, []string{"a", "b"}) || c.Bricks[a] != 0 || c.Bricks[b] == 0 {
		t.Errorf("one brick was away: %+v", c)
	}
	// It heals itself once it is told to, and as late as it is told to.
	for _, path := range []string{"/nodes/a/heals/v", "/heal-time/1ms"} {
		if status, text := ask(t, http.MethodPost, hub.URL+path, ""); status != http.StatusOK {
			t.Fatal(path, status, text)
		}
	}
	if w.HealTime() != time.Millisecond {
		t.Errorf("healing takes %s", w.HealTime())
	}
	call := w.Begin(w.Node("a"))
	heals, f := volume.Option(call, "v", "cluster/replicate.self-heal-daemon")
	if call.End(); f != nil || heals.Value != "on" {
		t.Errorf("%+v, %v", heals, f)
	}
	if status, _ := ask(t, http.MethodGet, hub.URL+"/nodes/a/content/nosuch", ""); status != http.StatusConflict {
		t.Errorf("status %d", status)
	}
}

// TestHub_zones: the devices of all servers are told, and the copies of a volume are in the zones that were asked for.
func TestHub_zones(t *testing.T) {
	w := cluster.New(cluster.Config{})
	defer w.Close()
	hub := httptest.NewServer(NewHub(w))
	defer hub.Close()
	twoBricks(t, hub.URL)
	var devices []cluster.Device
	if status, text := ask(t, http.MethodGet, hub.URL+"/nodes/a/devices", ""); status != http.StatusOK || json.Unmarshal([]byte(text), &devices) != nil || len(devices) != 2 || devices[0].State != "enabled" {
		t.Errorf("status %d, devices %s", status, text)
	}
	if status, text := ask(t, http.MethodPost, hub.URL+"/nodes/a/create/other?size=524288000&replica=2&zone=z2", ""); status != http.StatusConflict || !strings.Contains(text, "no space available") {
		t.Errorf("two copies in one zone: status %d %s", status, text)
	}
}
