// Package remote spreads the stand-in for glusterd2 over pods: a Hub has the model, and a Post in each pod serves the API of one server out of it. A
// server lives as long as its Post says so.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"quarry.storage/quarry/test/gd2"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
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
	mux     *http.ServeMux
}

// NewHub makes a Hub over a World.
func NewHub(w *cluster.World) *Hub {
	h := &Hub{World: w, servers: map[string]*gd2.Server{}, seen: map[string]time.Time{}, mux: http.NewServeMux()}
	h.mux.HandleFunc("PUT /nodes/{name}", h.register)
	h.mux.HandleFunc("POST /nodes/{name}/alive", h.alive)
	h.mux.HandleFunc("DELETE /nodes/{name}", h.with(func(n *cluster.Node, _ *http.Request) { n.Stop(); n.KillBricks() }))
	h.mux.HandleFunc("POST /nodes/{name}/freeze", h.with(func(n *cluster.Node, _ *http.Request) { n.Freeze() }))
	h.mux.HandleFunc("POST /nodes/{name}/thaw", h.with(func(n *cluster.Node, _ *http.Request) { n.Thaw() }))
	h.mux.HandleFunc("POST /nodes/{name}/write/{volume}", h.write)
	h.mux.HandleFunc("GET /nodes/{name}/content/{volume}", h.content)
	h.mux.HandleFunc("POST /nodes/{name}/create/{volume}", h.create)
	h.mux.HandleFunc("POST /nodes/{name}/delete/{volume}", h.remove)
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
	h.seen[name] = time.Now()
}

// write has a client of a volume write files.
func (h *Hub) write(w http.ResponseWriter, r *http.Request) {
	s := h.server(r.PathValue("name"))
	if s == nil {
		http.Error(w, "no such server", http.StatusNotFound)
		return
	}
	c := h.World.Begin(s.Node)
	if c == nil {
		http.Error(w, "the server does not run", http.StatusGone)
		return
	}
	defer c.End()
	if c.C.Volumes[r.PathValue("volume")] == nil {
		http.Error(w, "no such volume", http.StatusNotFound)
		return
	}
	volume.Write(c, r.PathValue("volume"), r.URL.Query()["file"]...)
}

// Content is what a volume has.
type Content struct {
	// Files are those that clients wrote, in their order.
	Files []string `json:"files"`
	// Bricks are the IDs of its peers, and of each how many entries it lacks, whether anything is marked or not.
	Bricks map[string]int `json:"bricks"`
}

// content tells what a volume has.
func (h *Hub) content(w http.ResponseWriter, r *http.Request) {
	h.through(w, r, func(c *cluster.Call, name string) *cluster.Failure {
		v := c.C.Volumes[name]
		if v == nil {
			return cluster.Fail(http.StatusNotFound, "no such volume")
		}
		out := Content{Files: []string{}, Bricks: map[string]int{}}
		for _, f := range v.Files {
			out.Files = append(out.Files, f.Filename)
		}
		for _, s := range v.Subvols {
			for _, b := range s.Bricks {
				lacks := len(v.Unmarked[b.ID])
				for _, other := range s.Bricks {
					if other != b {
						lacks += len(v.Pending[other.ID])
					}
				}
				out.Bricks[b.PeerID] += lacks
			}
		}
		if err := json.NewEncoder(w).Encode(out); err != nil {
			return cluster.Fail(http.StatusInternalServerError, "%v", err)
		}
		return nil
	})
}

// create makes and starts a volume, by the size in bytes and the number of copies that the query has.
func (h *Hub) create(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseUint(r.URL.Query().Get("size"), 10, 64)
	replica, failed := strconv.Atoi(r.URL.Query().Get("replica"))
	if err := errors.Join(err, failed); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.through(w, r, func(c *cluster.Call, name string) *cluster.Failure {
		if _, f := volume.Create(c, volume.CreateRequest{Name: name, Size: size, Replica: replica}); f != nil {
			return f
		}
		_, f := volume.Start(c, name, volume.StartRequest{})
		return f
	})
}

// remove stops and deletes a volume.
func (h *Hub) remove(w http.ResponseWriter, r *http.Request) {
	h.through(w, r, func(c *cluster.Call, name string) *cluster.Failure {
		if _, f := volume.Stop(c, name); f != nil {
			return f
		}
		return volume.Delete(c, name)
	})
}

// through does something to a volume through a server that runs.
func (h *Hub) through(w http.ResponseWriter, r *http.Request, do func(*cluster.Call, string) *cluster.Failure) {
	s := h.server(r.PathValue("name"))
	if s == nil {
		http.Error(w, "no such server", http.StatusNotFound)
		return
	}
	c := h.World.Begin(s.Node)
	if c == nil {
		http.Error(w, "the server does not run", http.StatusGone)
		return
	}
	defer c.End()
	if f := do(c, r.PathValue("volume")); f != nil {
		http.Error(w, fmt.Sprint(f.Errors), http.StatusConflict)
	}
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
