package agents

import (
	"slices"
	"sync"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// sightings knows which nodes see a disk, or did when they were last heard. Every report is entered before anybody decides on it. So of two
// nodes that see a new disk at the same moment, the one that is entered later is refused it, and from then on both are.
type sightings struct {
	// exempt are disks that are meant to be seen on several nodes; nil for none.
	exempt func(decide.Device) bool

	mu sync.Mutex
	// nodes by disk, ordered, and disks by node.
	nodes map[decide.DiskIdentity][]string
	disks map[string]map[decide.DiskIdentity]bool
	// crowded is on how many disks of a node others look too. Most nodes have none, and are not searched.
	crowded map[string]int
}

func newSightings(exempt func(decide.Device) bool) *sightings {
	return &sightings{
		exempt: exempt, nodes: map[decide.DiskIdentity][]string{}, disks: map[string]map[decide.DiskIdentity]bool{}, crowded: map[string]int{},
	}
}

// identity of a device that may be seen on one node only.
func (s *sightings) identity(d decide.Device) (decide.DiskIdentity, bool) {
	id, certain := d.Identity()
	return id, certain && (s.exempt == nil || !s.exempt(d))
}

// set says which devices a node sees now. It returns the other nodes for which that changes something.
func (s *sightings) set(node string, devices []decide.Device) (others []string) {
	now := map[decide.DiskIdentity]bool{}
	for _, d := range devices {
		if id, ok := s.identity(d); ok {
			now[id] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.disks[node]
	for id := range old {
		if !now[id] {
			others = append(others, s.leave(node, id)...)
		}
	}
	for id := range now {
		if !old[id] {
			others = append(others, s.enter(node, id)...)
		}
	}
	if s.disks[node] = now; len(now) == 0 {
		delete(s.disks, node)
	}
	slices.Sort(others)
	return slices.Compact(others)
}

// enter notes that a node sees a disk. Only who saw it alone until now learns something: the others are refused the disk already.
func (s *sightings) enter(node string, id decide.DiskIdentity) []string {
	before := s.nodes[id]
	at, _ := slices.BinarySearch(before, node)
	s.nodes[id] = slices.Insert(slices.Clone(before), at, node)
	if len(before) == 0 {
		return nil
	}
	s.crowded[node]++
	if len(before) > 1 {
		return nil
	}
	s.crowded[before[0]]++
	return before
}

// leave notes that a node does not see a disk any more. It may be the one that the others are told of.
func (s *sightings) leave(node string, id decide.DiskIdentity) []string {
	left := slices.DeleteFunc(slices.Clone(s.nodes[id]), func(n string) bool { return n == node })
	if s.nodes[id] = left; len(left) == 0 {
		delete(s.nodes, id)
		return nil
	}
	s.calm(node)
	if len(left) == 1 {
		s.calm(left[0])
	}
	return left
}

func (s *sightings) calm(node string) {
	if s.crowded[node]--; s.crowded[node] <= 0 {
		delete(s.crowded, node)
	}
}

// other names a node beside the given one that sees a device; empty when there is none.
func (s *sightings) other(node string, d decide.Device) string {
	id, ok := s.identity(d)
	if !ok {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes[id] {
		if n != node {
			return n
		}
	}
	return ""
}

// mark refuses the devices of a node that others see too.
func (s *sightings) mark(n decide.Node) decide.Node {
	s.mu.Lock()
	crowded := s.crowded[n.Name] > 0
	s.mu.Unlock()
	if !crowded {
		return n
	}
	return n.WithShared(func(d decide.Device) string { return s.other(n.Name, d) })
}

// Recall says what a node saw when another process was told of it last. It counts until the node's agent reports: nobody knows better. It is
// to be called for all nodes before the first SetAddress.
func (p *Pool) Recall(node string, devices []decide.Device) {
	p.mu.Lock()
	heard := p.links[node] != nil
	var others []string
	if !heard && p.ctx.Err() == nil {
		others = p.sightings.set(node, devices)
	}
	p.mu.Unlock()
	p.publish(others...)
}

// Unshared refuses a call that would write to a device that another node sees: its report may have come after the decision.
func (p *Pool) Unshared(node, call string, devices ...decide.Device) error {
	for _, d := range devices {
		if other := p.sightings.other(node, d); other != "" {
			return &decide.Fault{
				Kind: decide.FaultPrecondition, Node: node, Call: call, Reason: v1alpha1.ReasonSharedDisk, Message: d.Path + ": " + d.Shared(other),
			}
		}
	}
	return nil
}

// ofGroup are the devices of a node that are in a group of that name and owner.
func (p *Pool) ofGroup(node, group, owner string) []decide.Device {
	return p.members(node, func(g decide.Group) bool { return g.Name == group && g.OwnerUID == owner })
}

// members are the devices of a node that are in a group of its last report, or in one of another node that it sees.
func (p *Pool) members(node string, wanted func(decide.Group) bool) []decide.Device {
	var out []decide.Device
	n := p.Node(node)
	for _, g := range slices.Concat(n.Groups, n.OtherNodes) {
		for _, d := range n.Devices {
			if wanted(g) && g.Holds(d) {
				out = append(out, d)
			}
		}
	}
	return out
}
