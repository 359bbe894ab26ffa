// Package iscsitest is a strict model of a target with one LUN and of the agents of its initiators, for tests of what the controller does with them. It
// keeps what decision 0038 says that agents and targets keep, and writes down what must never happen.
package iscsitest

import (
	"fmt"
	"slices"
	"sync"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// SAN is a target with its LUNs, and the nodes that use it.
type SAN struct {
	mu    sync.Mutex
	nodes map[string]*node
	luns  []*LUN
	// IQN and portals of the target; down are those that do not answer.
	IQN  string
	down map[string]bool
	chap *sharedlun.Chap
	// Granted reports whether a key is on record for a node's boot; nil when a test does not ask.
	Granted func(node string, key uint64, bootID string) bool
	// Strike may end a call before or after its effect; nil lets all pass.
	Strike func(call, node string, after bool) error

	calls      []string
	violations []string
}

// LUN is one LUN of the target.
type LUN struct {
	Identity sharedlun.Identity
	ReadOnly bool
	// Content of somebody else; empty when there is none.
	Content string
	// NoReservations is true when the target keeps none of it.
	NoReservations bool
	group          *sharedlun.Group
	keys           map[string]uint64
	reserved       bool
}

type node struct {
	name, boot, machine string
	agent               decide.AgentState
	initiator           sharedlun.Initiator
	sessions            map[string]bool
	used                *sharedlun.Chap
	mapped              map[string]bool
	// cut are the devices that return errors, open those that somebody has open. swapped is true while the target has another LUN under the number on the node's paths.
	cut      map[string]bool
	open     map[string]bool
	swapped  bool
	promised uint64
	// uses says who uses the LUN on the node; empty when nobody does.
	uses string
	// shown is the one LUN that the target shows to the node; nil when it shows it all.
	shown *LUN
}

// mapsOnly reports whether a node has no devices but those of some volumes.
func (n *node) mapsOnly(own []string) bool {
	for uuid := range n.mapped {
		if !slices.Contains(own, uuid) {
			return false
		}
	}
	return true
}

// shutOut writes down who answers, has a volume of its own mapped, and cannot write from now on.
func (s *SAN) shutOut(l *LUN) {
	if l.group == nil {
		return
	}
	for _, v := range l.group.Volumes {
		if n := s.nodes[v.HeldBy]; n != nil && n.agent == decide.AgentUp && n.mapped[v.UUID] && l.keys[v.HeldBy] == 0 {
			s.violations = append(s.violations, v.HeldBy+" was shut out from "+v.Name)
		}
	}
}

// New makes a target with one LUN of 1 GiB on which nothing is.
func New(iqn string) (*SAN, *LUN) {
	s := &SAN{nodes: map[string]*node{}, IQN: iqn, down: map[string]bool{}}
	l := s.AddLUN("1")
	return s, l
}

// AddLUN adds a LUN.
func (s *SAN) AddLUN(number string) *LUN {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &LUN{Identity: sharedlun.Identity{WWID: "naa.600140500000000" + number, Serial: "serial-" + number, SizeBytes: 1 << 30}, keys: map[string]uint64{}}
	s.luns = append(s.luns, l)
	return l
}

// AddNode adds a node whose agent answers.
func (s *SAN) AddNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name] = &node{
		name: name, boot: name + "-boot-1", machine: Machine("machine-of-" + name), agent: decide.AgentUp, sessions: map[string]bool{}, mapped: map[string]bool{}, cut: map[string]bool{}, open: map[string]bool{},
		initiator: sharedlun.Initiator{Name: "iqn.2026-01.storage.quarry:" + name, OfHost: true, Multipath: true},
	}
}

// Edit changes a LUN.
func (s *SAN) Edit(l *LUN, change func(*LUN)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(l)
}

// DropLUN lets the target show no LUN at all any more.
func (s *SAN) DropLUN() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.luns = nil
}

// SetAgent says how the agent of a node is.
func (s *SAN) SetAgent(name string, state decide.AgentState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name].agent = state
}

// SetInitiator changes what a node says of its initiator.
func (s *SAN) SetInitiator(name string, change func(*sharedlun.Initiator)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.nodes[name].initiator)
}

// SetUse lets somebody use the LUN on a node; empty words end that.
func (s *SAN) SetUse(name, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name].uses = by
}

// SetChap lets the target ask for credentials. Sessions stay.
func (s *SAN) SetChap(c *sharedlun.Chap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chap = c
}

// SetDown lets portals not answer, or again.
func (s *SAN) SetDown(down bool, portals ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range portals {
		s.down[p] = down
	}
}

// LoseKeys lets the target forget all registrations.
func (s *SAN) LoseKeys(l *LUN) {
	s.Edit(l, func(l *LUN) {
		clear(l.keys)
		l.reserved = false
	})
}

// KeepKey lets the target have a key for a path that no node uses; 0 takes it off.
func (s *SAN) KeepKey(l *LUN, path string, key uint64) {
	s.Edit(l, func(l *LUN) {
		if delete(l.keys, path); key != 0 {
			l.keys[path] = key
		}
		// Every key holds the reservation, so that it ends with the last of them.
		l.reserved = l.reserved && len(l.keys) > 0
	})
}

// MakeGroup puts a group onto a LUN.
func (s *SAN) MakeGroup(l *LUN, ownerUID string) {
	s.Edit(l, func(l *LUN) {
		l.group = &sharedlun.Group{UUID: GroupUUID, Name: "vg", OwnerUID: ownerUID, Epoch: 1, Sequence: 1}
	})
}

// SetVolume puts a volume into the group, as the CSI controller would; without a name of a node nobody holds it.
func (s *SAN) SetVolume(l *LUN, v sharedlun.Volume, mappedOn ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.group.Volumes = slices.DeleteFunc(l.group.Volumes, func(o sharedlun.Volume) bool { return o.Name == v.Name })
	l.group.Volumes = append(l.group.Volumes, v)
	l.group.Sequence++
	for _, n := range mappedOn {
		s.nodes[n].mapped[v.UUID] = true
	}
}

// DropVolume takes a volume out of the group, and its devices off all nodes.
func (s *SAN) DropVolume(l *LUN, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range l.group.Volumes {
		for _, n := range s.nodes {
			if v.Name == name {
				delete(n.mapped, v.UUID)
			}
		}
	}
	l.group.Volumes = slices.DeleteFunc(l.group.Volumes, func(v sharedlun.Volume) bool { return v.Name == name })
	l.group.Sequence++
}

// DropMapping takes the device of a volume off a node.
func (s *SAN) DropMapping(node, uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes[node].mapped, uuid)
}

// Group returns a copy of the group; nil when there is none. Keys returns the keys by node.
func (s *SAN) Group(l *LUN) *sharedlun.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.copied()
}

// Keys returns the registered keys by node.
func (s *SAN) Keys(l *LUN) map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]uint64{}
	for n, k := range l.keys {
		out[n] = k
	}
	return out
}

// Mapped returns the nodes on which a volume is mapped, ordered, and Sessions the number of a node's sessions.
func (s *SAN) Mapped(uuid string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, n := range s.nodes {
		if n.mapped[uuid] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Sessions returns how many sessions a node has.
func (s *SAN) Sessions(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.nodes[name].sessions)
}

// Calls returns the calls that were made since it was called last, "call node".
func (s *SAN) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

// Violations returns what must never happen, and did.
func (s *SAN) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

func (l *LUN) copied() *sharedlun.Group {
	if l.group == nil {
		return nil
	}
	g := *l.group
	g.Volumes = slices.Clone(g.Volumes)
	slices.SortFunc(g.Volumes, func(a, b sharedlun.Volume) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
	return &g
}

func fault(kind decide.FaultKind, node, call, reason, format string, args ...any) error {
	return &decide.Fault{Kind: kind, Node: node, Call: call, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
