package agents

import (
	"maps"
	"slices"
	"sync"

	"quarry.storage/quarry/controller/internal/decide"
)

// holders knows which nodes report, or did when they were last seen, a group of an owner. One that names another node counts: its disks were moved there.
type holders struct {
	mu sync.Mutex
	// nodes by owner, and owners by node.
	nodes  map[string]map[string]bool
	owners map[string][]string
}

func newHolders() *holders {
	return &holders{nodes: map[string]map[string]bool{}, owners: map[string][]string{}}
}

// set says which groups a node has now, known or not.
func (h *holders) set(node string, n decide.Node) {
	owners := make([]string, 0, len(n.Groups)+len(n.OtherNodes))
	for _, g := range slices.Concat(n.Groups, n.OtherNodes) {
		owners = append(owners, g.OwnerUID)
	}
	for _, u := range n.Unknown {
		if u.OwnerUID != "" {
			owners = append(owners, u.OwnerUID)
		}
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.owners[node]
	if slices.Equal(old, owners) {
		return
	}
	for _, o := range old {
		delete(h.nodes[o], node)
		if len(h.nodes[o]) == 0 {
			delete(h.nodes, o)
		}
	}
	for _, o := range owners {
		if h.nodes[o] == nil {
			h.nodes[o] = map[string]bool{}
		}
		h.nodes[o][node] = true
	}
	if h.owners[node] = owners; len(owners) == 0 {
		delete(h.owners, node)
	}
}

// of returns the nodes of an owner, ordered.
func (h *holders) of(owner string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.nodes[owner]))
}
