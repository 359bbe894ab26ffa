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
	// Boot identifies the boot that the node last told of; empty when it never told of one. Machine is the one that was booted, in the spelling of decide.Spelled; empty when the
	// node does not say, and when another node is or was that machine, too, as far as its UUID tells.
	Boot, Machine string
	// Tainted: a person says that the node is out of service. Off: that, and nothing was heard of the node for a while.
	Tainted, Off bool
}

// Blocked is the record that the clients at an address are kept from reading and writing, written before Ceph is asked for that.
type Blocked struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	// Boot of the node that is to be over before its clients may write again.
	Boot string `json:"boot"`
	// Machine that was booted: another one of the node's name says nothing about it. Empty when nobody knew.
	Machine string `json:"machine,omitempty"`
	// Let: the clients are let in. It is written before Ceph is asked for that, so that nobody blocks them again, or is asked anew, if that is cut off.
	Let bool `json:"let,omitempty"`
}

// blocked is the record of the clients at an address of a node, as the node is now.
func (c Client) blocked(address string) Blocked {
	return Blocked{Node: c.Node, Address: address, Boot: c.Boot, Machine: c.Machine}
}

// covers reports whether a record says all that another one would.
func (r Blocked) covers(other Blocked) bool {
	return r == other || !r.Let && other.Machine == "" && r.Node == other.Node && r.Address == other.Address && r.Boot == other.Boot
}

// Replaces reports whether a record is about the same machine as an earlier one, so that it takes its place: it has the same boot, or says that it is that machine.
func (r Blocked) Replaces(earlier Blocked) bool {
	same := r.Boot != "" && r.Boot == earlier.Boot || r.Machine == earlier.Machine && (r.Machine != "" || r.Boot == earlier.Boot)
	return same && r.Node == earlier.Node && r.Address == earlier.Address
}

// over reports whether a node tells that the boot of a record is: the same machine was booted since.
func (r Blocked) over(c Client) bool {
	return c.Boot != "" && c.Boot != r.Boot && r.Machine != "" && c.Machine == r.Machine
}

// unheard reports whether nobody tells of the machine of a record any more: its node is gone, or may be another machine.
func (r Blocked) unheard(c Client) bool {
	return c.Node == "" || c.Boot != "" && c.Boot != r.Boot && !r.over(c)
}

// Fence is what is wanted of the clients of nodes that are out of service.
type Fence struct {
	Clients []Client
	Records []Blocked
}

// PlanFence blocks the clients of nodes that are off, so that what their pods wrote last cannot reach the disks after other pods took their place. They are
// let in again once the same machine was booted anew, and nobody says any more that it is off: a kernel that lives on still has what it did not write.
// Of a machine that is a node no more nobody hears of another boot: a person lets its address go.
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
			r := c.blocked(address)
			if other := w.living(address); other != "" {
				p.wait("Node %s is out of service, and its address %s is that of node %s as well, which may run: no client there is blocked. Correct the address of the Node that does not have it, or delete that Node.", c.Node, address, other)
				continue
			}
			if !slices.ContainsFunc(w.Records, func(have Blocked) bool { return have.covers(r) }) {
				p.step(r.step(BlockClient, "The node is out of service: what its clients did not write yet may not reach the disks any more."))
			}
		}
	}
	for _, r := range w.Records {
		w.recorded(&p, r, f)
	}
	p.Waits = append(p.Waits, w.Strangers(f)...)
	return p
}

// living is the name of a node that is not known to be off and has an address, as where an address was given to another machine; empty if there is none.
func (w Fence) living(address string) string {
	i := slices.IndexFunc(w.Clients, func(c Client) bool { return !c.Off && slices.Contains(c.Addresses, address) })
	if i < 0 {
		return ""
	}
	return w.Clients[i].Node
}

// Strangers tells of addresses all of whose clients are blocked although no record says that the Cluster wanted it: somebody else did, or the record was lost.
func (w Fence) Strangers(f Facts) []string {
	if f.Blocked == nil {
		return nil
	}
	var out []string
	for _, address := range *f.Blocked {
		if slices.ContainsFunc(w.Records, func(r Blocked) bool { return r.Address == address }) {
			continue
		}
		where := "no node has this address"
		if i := slices.IndexFunc(w.Clients, func(c Client) bool { return slices.Contains(c.Addresses, address) }); i >= 0 {
			if w.Clients[i].Off {
				// It is put on record.
				continue
			}
			where = "that is node " + w.Clients[i].Node
		}
		out = append(out, fmt.Sprintf("All clients at %s are on Ceph's blocklist (%s), and no record of the Cluster says why. Once the machine that had the address is off for good, or was booted anew, run: ceph osd blocklist rm %s",
			address, where, address))
	}
	return out
}

// recorded is about an address that is blocked on record.
func (w Fence) recorded(p *Plan, r Blocked, f Facts) {
	c := Client{}
	if i := slices.IndexFunc(w.Clients, func(c Client) bool { return c.Node == r.Node }); i >= 0 {
		c = w.Clients[i]
	}
	now := c.blocked(r.Address)
	switch {
	case c.Off && !r.covers(now) && now.Replaces(r) && slices.Contains(c.Addresses, r.Address):
		// The record is written anew, with the boot that is to be over now.
	case r.Let && r.runs(c):
		// That it was off for good, or booted anew, is not so: the word is taken back, and the rules begin anew.
		r.Let = false
		p.step(r.step(BlockClient, "The clients were to be let in, and the node is out of service, or runs in the boot that was to be over."))
	case r.Let:
		p.step(r.step(UnblockClient, "The clients are let in: that was begun, and may have been cut off."))
	case c.Node == "":
		p.wait("Clients at %s stay blocked: Kubernetes does not know node %s any more. Once its machine is off for good, or was booted anew, approve UnblockClient in the plan of the Cluster.",
			r.Address, r.Node)
		w.keep(p, r, f)
		p.step(r.release("Kubernetes does not know the node any more, so nobody tells of another boot."))
	case r.unheard(c):
		p.wait("Clients at %s stay blocked: node %s may be another machine by now, or another Node has the same systemUUID, so nothing tells about the machine before. Once that one is off for good, or was booted anew, approve UnblockClient in the plan of the Cluster.",
			r.Address, r.Node)
		w.keep(p, r, f)
		p.step(r.release("The node may be another machine by now, or another Node has its systemUUID, so nobody tells of another boot of the one before."))
	case c.Tainted:
		p.wait("Clients at %s are blocked: node %s is out of service.", r.Address, r.Node)
		w.keep(p, r, f)
	case !r.over(c):
		p.wait("Clients at %s stay blocked until node %s was booted anew: what they did not write may be old by now.", r.Address, r.Node)
		w.keep(p, r, f)
	default:
		p.step(r.step(UnblockClient, "The node was booted anew."))
	}
}

// runs reports whether the clients that are blocked may run: the node is in the boot that was to be over, or is the same machine and out of service.
func (r Blocked) runs(c Client) bool {
	return r.Boot != "" && c.Boot == r.Boot || c.Tainted && !r.unheard(c)
}

// keep blocks an address again that Ceph has let in.
func (w Fence) keep(p *Plan, r Blocked, f Facts) {
	if f.Blocked != nil && !slices.Contains(*f.Blocked, r.Address) {
		p.step(r.step(BlockClient, "Ceph has let the clients in again, and the node was not booted anew."))
	}
}

func (r Blocked) step(do Action, why string) Step {
	return Step{Do: do, Host: r.Node, Name: r.Address, Boot: r.Boot, Machine: r.Machine, Let: r.Let, ID: -1, Why: why}
}

// Blocked is the record that a step is about.
func (s Step) Blocked() Blocked {
	return Blocked{Node: s.Host, Address: s.Name, Boot: s.Boot, Machine: s.Machine, Let: s.Let}
}

// release lets the clients at the address of a machine in that is a node no more. A person approves it.
func (r Blocked) release(why string) Step {
	s := r.step(UnblockClient, why)
	s.Loses = fmt.Sprintf("You say that the machine that was node %s is off for good, or was booted anew. If it runs on, it writes at %s what is old by now.", r.Node, r.Address)
	return s
}

// MayBlock says why the clients of a node may not be blocked by a step; empty if they may. c is what the node is like right before.
func MayBlock(s Step, c Client, records []Blocked) string {
	let := s.Blocked()
	let.Let = true
	switch {
	case slices.Contains(records, s.Blocked()), slices.Contains(records, let) && let.runs(c):
		return ""
	case !c.Off:
		return fmt.Sprintf("node %s is not out of service any more", s.Host)
	case c.Boot != s.Boot || c.Machine != s.Machine || !slices.Contains(c.Addresses, s.Name):
		return fmt.Sprintf("node %s was booted anew, or has other addresses", s.Host)
	}
	return ""
}

// MayUnblock says why the clients of a node may not be let in by a step; empty if they may. c is what the node is like right before: it has no name if
// Kubernetes does not know it. What was begun goes on, unless the node turns out to run as it was: whoever blocks the node again takes that off the record.
func MayUnblock(s Step, c Client) string {
	if s.Let {
		if s.Blocked().runs(c) {
			return fmt.Sprintf("node %s is out of service, or runs in the boot that was to be over", s.Host)
		}
		return ""
	}
	if s.Loses != "" {
		// The person spoke of a machine of which nobody hears. Of one that is the node its boot tells.
		if !s.Blocked().unheard(c) {
			return fmt.Sprintf("Kubernetes knows the machine of node %s again", s.Host)
		}
		return ""
	}
	if c.Tainted || !s.Blocked().over(c) {
		return fmt.Sprintf("node %s is out of service, or was not booted anew", s.Host)
	}
	return ""
}
