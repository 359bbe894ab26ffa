package volume

import "slices"

// Topology is where a volume may be. The zero value means anywhere.
type Topology struct {
	// Requisite are the nodes that the volume has to be on one of; Preferred are those that are tried first.
	Requisite, Preferred []string
}

// ReadTopology reads topology segments: each has to name a node under the key.
func ReadTopology(key string, requisite, preferred []map[string]string) (Topology, error) {
	var t Topology
	for _, list := range []struct {
		segments []map[string]string
		nodes    *[]string
	}{{requisite, &t.Requisite}, {preferred, &t.Preferred}} {
		for _, s := range list.segments {
			if s[key] == "" {
				return Topology{}, Refuse(Invalid, "a topology lacks the key %q", key)
			}
			*list.nodes = append(*list.nodes, s[key])
		}
	}
	return t, nil
}

// Order returns the nodes in the order in which they are tried; nil means all.
func (t Topology) Order() []string {
	var out []string
	for _, n := range t.Preferred {
		if (len(t.Requisite) == 0 || slices.Contains(t.Requisite, n)) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for _, n := range t.Requisite {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Allows reports whether a node is allowed.
func (t Topology) Allows(node string) bool {
	order := t.Order()
	return len(order) == 0 || slices.Contains(order, node)
}
