package ceph

import (
	"fmt"
	"slices"
)

// Client is a node that may have the filesystem mounted.
type Client struct {
	Node string
	// Addresses that its kernel speaks from.
	Addresses []string
	// Boot identifies the boot that the node last told of; empty when it never told of one.
	Boot string
	// Tainted: a person says that the node is out of service. Off: that, and nothing was heard of the node for a while.
	Tainted, Off bool
}

// Blocked is the record that the clients at an address are kept from reading and writing, written before Ceph is asked for that.
type Blocked struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	// Boot of the node that is to be over before its clients may write again.
	Boot string `json:"boot"`
}

// Fence is what is wanted of the clients of nodes that are out of service.
type Fence struct {
	Clients []Client
	Records []Blocked
}

// PlanFence blocks the clients of nodes that are off, so that what their pods wrote last cannot reach the disks after other pods took their place. They are
// let in again once the node was booted anew, and nobody says any more that it is off: a kernel that lives on still has what it did not write.
// Of a node that Kubernetes does not know any more nobody hears of another boot: a person lets its address go.
// An address that somebody else blocked stays blocked.
func PlanFence(w Fence, f Facts) Plan {
	var p Plan
	if f.Quorum == nil {
		p.wait("The monitors do not answer, so no client is blocked or let in.")
		return p
	}
	for _, c := range w.Clients {
		if !c.Off {
			continue
		}
		if len(c.Addresses) == 0 {
			p.wait("Node %s is out of service, and has no address by which its clients could be blocked.", c.Node)
		}
		for _, address := range c.Addresses {
			r := Blocked{Node: c.Node, Address: address, Boot: c.Boot}
			if !slices.Contains(w.Records, r) {
				p.step(r.step(BlockClient, "The node is out of service: what its clients did not write yet may not reach the disks any more."))
			}
		}
	}
	for _, r := range w.Records {
		w.recorded(&p, r, f)
	}
	return p
}

// recorded is about an address that is blocked on record.
func (w Fence) recorded(p *Plan, r Blocked, f Facts) {
	i := slices.IndexFunc(w.Clients, func(c Client) bool { return c.Node == r.Node })
	if i < 0 {
		p.wait("Clients at %s stay blocked: Kubernetes does not know node %s any more. Once its machine is off for good, or was booted anew, approve UnblockClient in the plan of the Cluster.",
			r.Address, r.Node)
		w.keep(p, r, f)
		p.step(r.release())
		return
	}
	switch c := w.Clients[i]; {
	case c.Off && c.Boot != r.Boot:
		// The record is written anew, with the boot that is to be over now.
	case c.Tainted:
		p.wait("Clients at %s are blocked: node %s is out of service.", r.Address, r.Node)
		w.keep(p, r, f)
	case c.Boot == "" || c.Boot == r.Boot:
		p.wait("Clients at %s stay blocked until node %s was booted anew: what they did not write may be old by now.", r.Address, r.Node)
		w.keep(p, r, f)
	default:
		p.step(r.step(UnblockClient, "The node was booted anew."))
	}
}

// keep blocks an address again that Ceph has let in.
func (w Fence) keep(p *Plan, r Blocked, f Facts) {
	if f.Blocked != nil && !slices.Contains(*f.Blocked, r.Address) {
		p.step(r.step(BlockClient, "Ceph has let the clients in again, and the node was not booted anew."))
	}
}

func (r Blocked) step(do Action, why string) Step {
	return Step{Do: do, Host: r.Node, Name: r.Address, Boot: r.Boot, ID: -1, Why: why}
}

// release lets the clients at the address of a node in that Kubernetes does not know any more. A person approves it.
func (r Blocked) release() Step {
	s := r.step(UnblockClient, "Kubernetes does not know the node any more, so nobody tells of another boot.")
	s.Loses = fmt.Sprintf("You say that the machine that was node %s is off for good, or was booted anew. If it runs on, it writes at %s what is old by now.", r.Node, r.Address)
	return s
}

// MayBlock says why the clients of a node may not be blocked by a step; empty if they may. c is what the node is like right before.
func MayBlock(s Step, c Client, records []Blocked) string {
	switch {
	case slices.Contains(records, Blocked{Node: s.Host, Address: s.Name, Boot: s.Boot}):
		return ""
	case !c.Off:
		return fmt.Sprintf("node %s is not out of service any more", s.Host)
	case c.Boot != s.Boot || !slices.Contains(c.Addresses, s.Name):
		return fmt.Sprintf("node %s was booted anew, or has other addresses", s.Host)
	}
	return ""
}

// MayUnblock says why the clients of a node may not be let in by a step; empty if they may. c is what the node is like right before: it has no name if
// Kubernetes does not know it.
func MayUnblock(s Step, c Client) string {
	if s.Loses != "" {
		// The person spoke of a node that is gone. Of one that is known its boot tells.
		if c.Node != "" {
			return fmt.Sprintf("Kubernetes knows node %s again", s.Host)
		}
		return ""
	}
	if c.Tainted || c.Boot == "" || c.Boot == s.Boot {
		return fmt.Sprintf("node %s is out of service, or was not booted anew", s.Host)
	}
	return ""
}
