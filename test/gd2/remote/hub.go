// Package remote spreads the stand-in for glusterd2 over pods: a Hub has the model, and a Post in each pod serves the API of one server out of it. A
// server lives as long as its Post says so.
package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"quarry.storage/quarry/test/gd2"
	"quarry.storage/quarry/test/gd2/cluster"
)

// nodeHeader names the server that a request is for.
const nodeHeader = "X-Stand-In-Node"

// missing is how long a Post may be silent until its server counts as killed.
const missing = 6 * time.Second

// Registration is how a Post sets up its server.
type Registration struct {
	PeerAddress   string `json:"peerAddress"`
	ClientAddress string `json:"clientAddress"`
	PeerID        string `json:"peerID"`
	ClusterID     string `json:"clusterID"`
	Secret        []byte `json:"secret"`
	// Devices are block devices with their sizes.
	Devices map[string]uint64 `json:"devices"`
}

// Hub has the model. It listens to whoever reaches it, so it belongs into a lab.
type Hub struct {
	World *cluster.World

	mu      sync.Mutex
	servers map[string]*gd2.Server
	seen    map[string]time.Time
	// storeless are the servers that say that their store does not answer; away is true while all do.
	storeless map[string]bool
	away      bool
	mux       *http.ServeMux
}

// NewHub makes a Hub over a World.
func NewHub(w *cluster.World) *Hub {
	h := &Hub{World: w, servers: map[string]*gd2.Server{}, seen: map[string]time.Time{}, storeless: map[string]bool{}, mux: http.NewServeMux()}
	h.mux.HandleFunc("PUT /nodes/{name}", h.register)
	h.mux.HandleFunc("POST /nodes/{name}/alive", h.alive)
	h.mux.HandleFunc("DELETE /nodes/{name}", h.with(func(n *cluster.Node, _ *http.Request) { n.Stop(); n.KillBricks() }))
	h.mux.HandleFunc("POST /nodes/{name}/freeze", h.with(func(n *cluster.Node, _ *http.Request) { n.Freeze() }))
	h.mux.HandleFunc("POST /nodes/{name}/thaw", h.with(func(n *cluster.Node, _ *http.Request) { n.Thaw() }))
	h.mux.HandleFunc("POST /nodes/{name}/write/{volume}", h.write)
	h.mux.HandleFunc("GET /nodes/{name}/content/{volume}", h.content)
	h.mux.HandleFunc("GET /nodes/{name}/devices", h.devices)
	h.mux.HandleFunc("POST /nodes/{name}/create/{volume}", h.create)
	h.mux.HandleFunc("POST /nodes/{name}/delete/{volume}", h.remove)
	h.mux.HandleFunc("POST /nodes/{name}/heals/{volume}", h.heals)
	h.mux.HandleFunc("POST /heal-time/{time}", h.healTime)
	h.mux.HandleFunc("POST /store/freeze", func(http.ResponseWriter, *http.Request) { w.FreezeStore() })
	h.mux.HandleFunc("POST /store/thaw", func(http.ResponseWriter, *http.Request) { w.ThawStore() })
	h.mux.HandleFunc("GET /strange", func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, w.Strange()) })
	return h
}

// ServeHTTP answers for the server that the request names, or for the Hub itself.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.Header.Get(nodeHeader)
	if name == "" {
		h.mux.ServeHTTP(w, r)
		return
	}
	s := h.server(name)
	if s == nil {
		http.Error(w, "no such server", http.StatusServiceUnavailable)
		return
	}
	s.ServeHTTP(w, r)
}

func (h *Hub) server(name string) *gd2.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.servers[name]
}

// with is a handler that does something to a server.
func (h *Hub) with(do func(*cluster.Node, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := h.server(r.PathValue("name"))
		if s == nil {
			http.Error(w, "no such server", http.StatusNotFound)
			return
		}
		do(s.Node, r)
	}
}

// register makes a server, or has one that was there before start again.
func (h *Hub) register(w http.ResponseWriter, r *http.Request) {
	var reg Registration
	if err := json.NewDecoder(r.Body).Decode(&reg); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := r.PathValue("name")
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[name]
	if s == nil {
		s = &gd2.Server{World: h.World, Node: h.World.Add(cluster.NodeConfig{Name: name, StateDir: "/var/lib/glusterd2", Disk: &cluster.Disk{Blocks: map[string]*cluster.Block{}}})}
		h.servers[name] = s
	} else {
		s.Node.Stop()
		s.Node.KillBricks()
	}
	h.World.Do(func() {
		n := s.Node
		n.PeerAddress, n.ClientAddress, n.PeerID, n.ClusterID, n.Secret = reg.PeerAddress, reg.ClientAddress, reg.PeerID, reg.ClusterID, reg.Secret
		for path, size := range reg.Devices {
			if n.Disk.Blocks[path] == nil {
				n.Disk.Blocks[path] = &cluster.Block{Size: size}
			}
		}
	})
	h.seen[name] = time.Now()
	delete(h.storeless, name)
	if !s.Node.Start() {
		http.Error(w, "the server does not come up", http.StatusServiceUnavailable)
	}
}

func (h *Hub) alive(w http.ResponseWriter, r *http.Request) {
	name, up := r.PathValue("name"), false
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.servers[name]; s != nil {
		h.World.Do(func() { up = s.Node.Runs() })
	}
	if !up {
		http.Error(w, "the server does not run", http.StatusGone)
		return
	}
	h.seen[name], h.storeless[name] = time.Now(), r.URL.Query().Get("store") == "away"
	h.watchStore()
}

// watchStore has the store be out of reach while all servers that live say so. What else was done to it stays until they say something else.
func (h *Hub) watchStore() {
	away := true
	for name := range h.seen {
		away = away && h.storeless[name]
	}
	switch {
	case away && !h.away:
		h.World.FreezeStore()
	case !away && h.away:
		h.World.ThawStore()
	}
	h.away = away
}

// Watch kills servers whose Posts are silent, until the context ends.
func (h *Hub) Watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		for name, at := range h.seen {
			if time.Since(at) > missing {
				delete(h.seen, name)
				h.servers[name].Node.Kill()
				h.servers[name].Node.KillBricks()
			}
		}
		h.mu.Unlock()
	}
}
