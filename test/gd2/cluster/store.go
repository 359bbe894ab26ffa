package cluster

import (
	"time"
)

// Cluster is what the store has of one cluster.
type Cluster struct {
	ID string
	// Volumes, Snapshots and Options are read and changed inside calls.
	Volumes   map[string]*Volume
	Snapshots map[string]*Snapshot
	Options   map[string]string

	w       *World
	peers   map[string]*Peer
	devices map[string]map[string]*Device
	locks   map[string]bool
	events  []Event
	// members keep the store, where the servers do so.
	members []*Node
}

// cluster returns the cluster with an ID, and makes it if there is none.
func (w *World) cluster(id string) *Cluster {
	if id == "" {
		id = w.cfg.IDs()
	}
	c := w.clusters[id]
	if c == nil {
		c = &Cluster{
			ID: id, w: w, Volumes: map[string]*Volume{}, Snapshots: map[string]*Snapshot{}, peers: map[string]*Peer{},
			devices: map[string]map[string]*Device{}, locks: map[string]bool{},
		}
		w.clusters[id] = c
	}
	return c
}

// reachable reports whether the store answers.
func (c *Cluster) reachable() bool {
	if !c.w.cfg.Embedded {
		return !c.w.frozen
	}
	return c.quorum()
}

func (c *Cluster) quorum() bool {
	up := 0
	for _, n := range c.members {
		if n.Answers() {
			up++
		}
	}
	return up > len(c.members)/2
}

// drop takes a server off the members of the store.
func (c *Cluster) drop(n *Node) {
	for i, m := range c.members {
		if m == n {
			c.members = append(c.members[:i:i], c.members[i+1:]...)
			return
		}
	}
}

// Members returns the IDs of the peers that keep the store.
func (c *Cluster) Members() []string {
	var out []string
	for _, n := range c.members {
		out = append(out, n.id)
	}
	return out
}

// Cluster returns the cluster that the server takes part in.
func (n *Node) Cluster() *Cluster { return n.cluster }

// node returns the server that is a peer of the cluster, nil if no server thinks so.
func (c *Cluster) node(id string) *Node {
	for _, n := range c.w.nodes {
		if n.id == id && n.cluster == c {
			return n
		}
	}
	return nil
}

// Node returns the server of a peer.
func (c *Cluster) Node(id string) *Node { return c.node(id) }

// Alive reports whether a peer counts as online: its lease is there.
func (c *Cluster) Alive(id string) bool {
	n := c.node(id)
	if n == nil {
		return false
	}
	now := c.w.now()
	if n.Answers() {
		return !now.Before(n.late)
	}
	return now.Before(n.lease)
}

// Event is something that happened.
type Event struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Data      map[string]string `json:"data"`
	Origin    string            `json:"origin"`
	Timestamp time.Time         `json:"timestamp"`
}

func (c *Cluster) event(name string, by *Node, data map[string]string) {
	c.events = append(c.events, Event{ID: c.w.cfg.IDs(), Name: name, Data: data, Origin: by.id, Timestamp: c.w.now().UTC()})
}

// Event notes that something happened.
func (c *Call) Event(name string, data map[string]string) { c.C.event(name, c.N, data) }

// Events returns what happened.
func (c *Call) Events() ([]Event, *Failure) {
	if f := c.Read(); f != nil {
		return nil, f
	}
	return c.C.events, nil
}

// ID makes a UUID.
func (c *Call) ID() string { return c.W.cfg.IDs() }

// startBricks starts the bricks that a server finds it should run.
func (c *Cluster) startBricks(n *Node) {
	for _, v := range c.Volumes {
		if v.State != Started {
			continue
		}
		for _, b := range v.Bricks() {
			if b.PeerID == n.id && !n.FailBricks {
				n.StartBrick(b.ID)
			}
		}
	}
}
