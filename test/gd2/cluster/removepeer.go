package cluster

import (
	"github.com/google/uuid"
)

// RemovePeer removes a peer: one that is online and without bricks, and not the server itself.
func (c *Call) RemovePeer(id string) *Failure {
	if uuid.Validate(id) != nil {
		return Fail(400, "Invalid peer id passed")
	}
	if f := c.Read(); f != nil {
		return f
	}
	p := c.C.peers[id]
	switch {
	case p == nil:
		return Fail(404, "peer not found")
	case id == c.N.id:
		return Fail(400, "removing self is disallowed.")
	case !c.C.Alive(id):
		return Fail(500, "peer is not alive")
	case c.C.hasBricks(id):
		return Fail(403, "cannot delete peer, peer has bricks")
	}
	n := c.C.node(id)
	if !n.Runs() {
		return Fail(500, "rpc error: code = Unavailable desc = all SubConns are in TransientFailure, latest connection error: connection error: "+
			"desc = \"transport: Error while dialing dial tcp %s: connect: connection refused\"", n.PeerAddress)
	}
	c.Wait(Forever, func() bool { return !n.frozen })
	if n.joining {
		return Fail(409, "already processing another join/leave request")
	}
	n.joining = true
	defer func() { n.joining = false }()
	// The server that leaves looks for a store of its own at localhost first.
	c.Work(c.W.cfg.LeaveTime)
	n.leave()
	n.rename()
	n.enter(c.W.cluster(""))
	c.Event("peer.removed", map[string]string{"peer.id": id, "peer.name": p.Name})
	return nil
}

// hasBricks looks at volumes alone: bricks of snapshots do not count.
func (c *Cluster) hasBricks(id string) bool {
	for _, v := range c.Volumes {
		for _, b := range v.Bricks() {
			if b.PeerID == id {
				return true
			}
		}
	}
	return false
}
