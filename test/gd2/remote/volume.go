package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

// write has a client of a volume write files.
func (h *Hub) write(w http.ResponseWriter, r *http.Request) {
	s := h.server(r.PathValue("name"))
	if s == nil {
		http.Error(w, "no such server", http.StatusNotFound)
		return
	}
	c := h.World.BeginFor(r.Context(), s.Node)
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

// devices tells all devices that the pool knows.
func (h *Hub) devices(w http.ResponseWriter, r *http.Request) {
	h.through(w, r, func(c *cluster.Call, _ string) *cluster.Failure {
		all, f := c.Devices("")
		if f != nil {
			return f
		}
		if err := json.NewEncoder(w).Encode(all); err != nil {
			return cluster.Fail(http.StatusInternalServerError, "%v", err)
		}
		return nil
	})
}

// create makes and starts a volume, by the size in bytes, the number of copies, and the zones that the query has; in any zone if it has none.
func (h *Hub) create(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseUint(r.URL.Query().Get("size"), 10, 64)
	replica, failed := strconv.Atoi(r.URL.Query().Get("replica"))
	if err := errors.Join(err, failed); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.through(w, r, func(c *cluster.Call, name string) *cluster.Failure {
		request := volume.CreateRequest{Name: name, Size: size, Replica: replica}
		request.LimitZones = r.URL.Query()["zone"]
		if _, f := volume.Create(c, request); f != nil {
			return f
		}
		_, f := volume.Start(c, name, volume.StartRequest{})
		return f
	})
}

// heals has a volume heal itself, as an administrator of Gluster would.
func (h *Hub) heals(w http.ResponseWriter, r *http.Request) {
	h.through(w, r, func(c *cluster.Call, name string) *cluster.Failure {
		request := volume.OptionRequest{Options: map[string]string{"cluster/replicate.self-heal-daemon": "on"}}
		request.Advanced = true
		_, f := volume.SetOptions(c, name, request)
		return f
	})
}

// healTime sets how long it takes from now on until what is pending is healed.
func (h *Hub) healTime(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.PathValue("time"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.World.SetHealTime(d)
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
	c := h.World.BeginFor(r.Context(), s.Node)
	if c == nil {
		http.Error(w, "the server does not run", http.StatusGone)
		return
	}
	defer c.End()
	if f := do(c, r.PathValue("volume")); f != nil {
		http.Error(w, fmt.Sprint(f.Errors), http.StatusConflict)
	}
}
