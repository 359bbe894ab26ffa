package cluster

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

const zoneKey = "_zone"

// Peer is what the store has of a server.
type Peer struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	PeerAddresses   []string          `json:"peer-addresses"`
	ClientAddresses []string          `json:"client-addresses"`
	Online          bool              `json:"online"`
	PID             int               `json:"pid,omitempty"`
	Metadata        map[string]string `json:"metadata"`
}

// Zone returns the failure domain of a peer.
func (p *Peer) Zone() string {
	if z := p.Metadata[zoneKey]; strings.TrimSpace(z) != "" {
		return z
	}
	return p.ID
}

// answer returns the peer as it is listed.
func (c *Cluster) answer(p *Peer) Peer {
	out := *p
	out.Metadata = maps.Clone(p.Metadata)
	if out.Online = c.Alive(p.ID); out.Online {
		// A server that died is still online with its process for a while.
		out.PID = c.node(p.ID).lastPID()
	}
	return out
}

func (n *Node) lastPID() int {
	if n.pid != 0 {
		return n.pid
	}
	return n.pidBefore
}

// Peer returns the entry of a peer, nil if there is none.
func (c *Cluster) Peer(id string) *Peer { return c.peers[id] }

// PeerIDs returns the IDs of all peers, in order.
func (c *Cluster) PeerIDs() []string { return slices.Sorted(maps.Keys(c.peers)) }

// Matches reports whether metadata pass a filter by key and value. Empty ones pass all.
func Matches(m map[string]string, key, value string) bool {
	if key != "" {
		v, ok := m[key]
		return ok && (value == "" || v == value)
	}
	return value == "" || slices.Contains(slices.Collect(maps.Values(m)), value)
}

// Peers lists the peers that pass a filter.
func (c *Call) Peers(key, value string) ([]Peer, *Failure) {
	if f := c.Read(); f != nil {
		return nil, f
	}
	var out []Peer
	for _, id := range c.C.PeerIDs() {
		if p := c.C.peers[id]; Matches(p.Metadata, key, value) {
			out = append(out, c.C.answer(p))
		}
	}
	return out, nil
}

// Peer returns one peer. Every error of the store is a 404.
func (c *Call) Peer(id string) (Peer, *Failure) {
	if uuid.Validate(id) != nil {
		return Peer{}, Fail(400, "Invalid peer id passed")
	}
	if f := c.Read(); f != nil {
		f.Status = 404
		return Peer{}, f
	}
	p := c.C.peers[id]
	if p == nil {
		return Peer{}, Fail(404, "peer not found")
	}
	return c.C.answer(p), nil
}

// PeerRequest is what peers are added and edited with.
type PeerRequest struct {
	Addresses []string          `json:"addresses"`
	Zone      string            `json:"zone,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

const maxMetadata = 4096

// TooLarge reports whether metadata are over the limit.
func TooLarge(m map[string]string) bool {
	size := 0
	for k, v := range m {
		size += len(k) + len(v)
	}
	return size > maxMetadata
}

// Restricted returns a Failure for metadata with keys of glusterd2.
func Restricted(m map[string]string) *Failure {
	for k := range m {
		if strings.HasPrefix(k, "_") {
			return Fail(400, "key names starting with '_' are restricted in metadata field")
		}
	}
	return nil
}

// AddPeer has a server join.
func (c *Call) AddPeer(r PeerRequest) (Peer, *Failure) {
	if TooLarge(r.Metadata) {
		return Peer{}, Fail(400, "metadata size exceeds max allowed size of 4KB")
	}
	if f := Restricted(r.Metadata); f != nil {
		return Peer{}, f
	}
	if len(r.Addresses) == 0 {
		return Peer{}, Fail(400, "no hostnames present")
	}
	// An error of the store is taken for: no such peer.
	if c.Read() == nil {
		if id := c.C.byAddress(r.Addresses); id != "" {
			return Peer{}, Fail(409, "Peer exists with given addresses (ID: %s)", id)
		}
	}
	address, err := peerAddress(r.Addresses[0])
	if err != nil {
		return Peer{}, Fail(400, "failed to parse remote address")
	}
	n, f := c.dial(address)
	if f != nil {
		return Peer{}, f
	}
	if f := c.join(n); f != nil {
		return Peer{}, f
	}
	p := c.C.peers[n.id]
	if r.Zone != "" {
		p.Metadata[zoneKey] = r.Zone
	}
	maps.Copy(p.Metadata, r.Metadata)
	if !slices.Contains(p.PeerAddresses, address) {
		p.PeerAddresses = append([]string{address}, p.PeerAddresses...)
	}
	c.Event("peer.added", map[string]string{"peer.id": p.ID, "peer.name": p.Name})
	out := *p
	out.Metadata, out.Online, out.PID = maps.Clone(p.Metadata), true, 0
	return out, nil
}

// byAddress finds a peer by its addresses, as text.
func (c *Cluster) byAddress(addresses []string) string {
	for _, id := range c.PeerIDs() {
		for _, a := range addresses {
			if full, err := peerAddress(a); err == nil && slices.Contains(c.peers[id].PeerAddresses, full) {
				return id
			}
		}
	}
	return ""
}

func peerAddress(a string) (string, error) {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		if !strings.HasSuffix(err.Error(), "missing port in address") {
			return "", err
		}
		host, port = a, "24008"
	}
	if host == "" {
		return "", errors.New("invalid peer address")
	}
	return host + ":" + port, nil
}

// dial finds the server that listens at an address.
func (c *Call) dial(address string) (*Node, *Failure) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, Fail(400, "failed to parse remote address")
	}
	if real, ok := c.W.hosts[host]; ok {
		host = real
	}
	known := false
	for _, n := range c.W.nodes {
		h, p, err := net.SplitHostPort(n.PeerAddress)
		known = known || (err == nil && h == host)
		if err == nil && h == host && p == port && n.running {
			c.Wait(Forever, func() bool { return !n.frozen })
			return n, nil
		}
		if n.ClientAddress == net.JoinHostPort(host, port) && n.running {
			return nil, Fail(500, "failed to send join cluster request")
		}
	}
	if ip := net.ParseIP(host); !known && ip != nil && !ip.IsLoopback() {
		// Nobody has the address: it takes a while to find out.
		c.Work(3 * time.Second)
	}
	return nil, Fail(500, "could not connect to host. Make sure host address is valid, network connection is active and gd2 is up and running")
}

// join moves a server into the cluster of the call.
func (c *Call) join(n *Node) *Failure {
	if n.joining {
		return Fail(409, "already processing another join/leave request")
	}
	n.joining = true
	defer func() { n.joining = false }()
	if f := c.Read(); f != nil {
		return Fail(500, "failed to connect to store")
	}
	c.Work(10 * time.Millisecond)
	if len(n.cluster.peers) != 1 || len(n.cluster.Volumes) != 0 {
		return Fail(500, "peer is part of another cluster")
	}
	n.leave()
	n.rename()
	n.enter(c.C)
	return nil
}

// rename gives the server a new ID, as every join and leave does, unless its environment has one.
func (n *Node) rename() {
	if n.PeerID == "" {
		n.id = n.w.cfg.IDs()
	}
}

// EditPeer changes zone and metadata in the store alone. What it returns never says online.
func (c *Call) EditPeer(id string, r PeerRequest) (Peer, *Failure) {
	if uuid.Validate(id) != nil {
		return Peer{}, Fail(400, "Invalid peerID passed in url")
	}
	if f := Restricted(r.Metadata); f != nil {
		return Peer{}, f
	}
	unlock, f := c.Lock(id)
	if f != nil {
		return Peer{}, f
	}
	defer unlock()
	c.Settle()
	p := c.C.peers[id]
	if p == nil {
		return Peer{}, Fail(500, "Transaction to update peer failed")
	}
	merged := maps.Clone(p.Metadata)
	maps.Copy(merged, r.Metadata)
	if TooLarge(r.Metadata) || TooLarge(merged) {
		return Peer{}, Fail(500, "Transaction to update peer failed")
	}
	if r.Zone != "" {
		merged[zoneKey] = r.Zone
	}
	p.Metadata = merged
	out := *p
	out.Metadata = maps.Clone(merged)
	return out, nil
}
