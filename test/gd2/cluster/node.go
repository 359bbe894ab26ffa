package cluster

import (
	"time"
)

// NodeConfig is how a server is set up.
type NodeConfig struct {
	Name string
	// PeerAddress and ClientAddress are host:port.
	PeerAddress   string
	ClientAddress string
	// StateDir is where relative paths begin.
	StateDir string
	// PeerID and ClusterID are GD2_PEER_ID and GD2_CLUSTER_ID of its environment.
	PeerID    string
	ClusterID string
	// FirstID and FirstCluster are what the server calls itself at its first start. Empty means random.
	FirstID      string
	FirstCluster string
	// Secret that tokens are signed with. Nil means that none is asked for.
	Secret []byte
	Disk   *Disk
}

// Node is one server. Its fields are read and changed inside World.Do.
type Node struct {
	NodeConfig
	// StalePIDFile has the next start fail: some process has the number in the file that was left behind.
	StalePIDFile bool
	// FailBricks has bricks end at once.
	FailBricks bool

	w       *World
	id      string
	cluster *Cluster
	running bool
	frozen  bool
	// life counts starts and ends: a call of an earlier life is dead.
	life int
	pid  int
	// pidBefore is of the process that ended.
	pidBefore int
	lease     time.Time
	late      time.Time
	joining   bool
	// processes are the bricks that run, by ID.
	processes map[string]Process
	ports     int
}

// Process is a brick that runs.
type Process struct{ PID, Port int }

// Add puts a server into the World. It does not run yet.
func (w *World) Add(cfg NodeConfig) *Node {
	n := &Node{NodeConfig: cfg, w: w, processes: map[string]Process{}, ports: 49151}
	if n.Disk == nil {
		n.Disk = &Disk{}
	}
	n.Disk.init()
	w.Do(func() { w.nodes = append(w.nodes, n) })
	return n
}

// ID returns the peer's ID, inside World.Do or a call.
func (n *Node) ID() string { return n.id }

// PID returns the number of the server's process, 0 if it does not run.
func (n *Node) PID() int { return n.pid }

// Start starts the server, and reports whether it came up.
func (n *Node) Start() (up bool) {
	n.w.Do(func() { up = n.start() })
	return up
}

func (n *Node) start() bool {
	if n.running || n.StalePIDFile || n.w.frozen {
		return n.running
	}
	if n.cluster == nil {
		n.id = first(n.PeerID, n.FirstID)
		if n.id == "" {
			n.id = n.w.cfg.IDs()
		}
		n.enter(n.w.cluster(first(n.ClusterID, n.FirstCluster)))
	} else if n.w.cfg.Embedded && len(n.cluster.members) > 1 && !n.cluster.quorum() {
		return false
	}
	if n.ClusterID != "" && n.cluster.ID != n.ClusterID {
		// The environment outranks what the server saved when it was removed: it is back in the cluster.
		n.leave()
		n.enter(n.w.cluster(n.ClusterID))
	}
	n.running, n.frozen, n.pid, n.lease = true, false, n.w.pid(), time.Time{}
	n.life++
	n.cluster.startBricks(n)
	return true
}

func first(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// enter makes the server a peer of a cluster.
func (n *Node) enter(c *Cluster) {
	n.cluster = c
	if c.peers[n.id] == nil {
		c.peers[n.id] = &Peer{
			ID: n.id, Name: n.Name, PeerAddresses: []string{n.PeerAddress}, ClientAddresses: []string{n.ClientAddress},
			Metadata: map[string]string{zoneKey: n.id},
		}
	}
	if n.w.cfg.Embedded && len(c.members) < 2 {
		c.members = append(c.members, n)
	}
	if len(c.peers) == 1 && len(c.events) == 0 {
		c.event("cleanup leader elected", n, map[string]string{"peer.id": n.id, "peer.name": n.Name})
	}
}

// leave takes the server out of its cluster.
func (n *Node) leave() {
	delete(n.cluster.peers, n.id)
	n.cluster.drop(n)
	if len(n.cluster.peers) == 0 {
		delete(n.w.clusters, n.cluster.ID)
	}
}

// Kill ends the server at once. It counts as online for a while. Its bricks go on.
func (n *Node) Kill() { n.w.Do(n.kill) }

func (n *Node) kill() {
	if n.running && !n.frozen {
		n.lease = n.w.now().Add(n.w.cfg.Lease)
	}
	if n.pid != 0 {
		n.pidBefore = n.pid
	}
	n.running, n.pid = false, 0
	n.life++
}

// Reset has the server forget all that it saved, while it does not run. It takes settings for its next first start.
func (n *Node) Reset(peerID, clusterID string) {
	n.w.Do(func() {
		if n.cluster != nil {
			n.leave()
		}
		n.cluster, n.PeerID, n.ClusterID, n.FirstID, n.FirstCluster = nil, peerID, clusterID, "", ""
	})
}

// Stop ends the server in order: it is offline at once. Its bricks go on.
func (n *Node) Stop() {
	n.w.Do(func() {
		n.kill()
		n.lease = time.Time{}
	})
}

// KillBricks ends all bricks of the server.
func (n *Node) KillBricks() { n.w.Do(func() { n.processes = map[string]Process{} }) }

// Freeze has the server answer nothing until Thaw. Its lease runs out.
func (n *Node) Freeze() {
	n.w.Do(func() {
		n.frozen, n.lease = true, n.w.now().Add(n.w.cfg.Lease)
	})
}

// Thaw ends Freeze.
func (n *Node) Thaw() { n.w.Do(func() { n.frozen = false }) }

// Answers reports whether the server would answer a peer now.
func (n *Node) Answers() bool { return n != nil && n.running && !n.frozen }

// Runs reports whether the server's process exists, even if it is frozen.
func (n *Node) Runs() bool { return n != nil && n.running }

// Brick returns the process of a brick.
func (n *Node) Brick(id string) (Process, bool) {
	p, ok := n.processes[id]
	return p, ok
}

// StartBrick starts a brick, unless it runs.
func (n *Node) StartBrick(id string) {
	if _, ok := n.processes[id]; !ok {
		n.ports++
		n.processes[id] = Process{PID: n.w.pid(), Port: n.ports}
	}
}

// StopBrick ends a brick.
func (n *Node) StopBrick(id string) { delete(n.processes, id) }
