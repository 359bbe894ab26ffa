package iscsitest

import "quarry.storage/quarry/pkg/sharedlun"

// Swap lets the target have another LUN under the number on the paths of a node, or ends that. The node's kernel remembers the recorded one.
func (s *SAN) Swap(name string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name].swapped = on
}

// Cut reports whether the device of a volume on a node returns errors.
func (s *SAN) Cut(node, uuid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[node].cut[uuid]
}

// Open has somebody open the device of a volume on a node, or close it.
func (s *SAN) Open(node, uuid string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node].open[uuid] = on
}

// told is what the target says of a LUN on the paths of a node.
func (n *node) told(l *LUN) sharedlun.Identity {
	out := l.Identity
	if n.swapped {
		out.Serial = "of another LUN"
	}
	return out
}
