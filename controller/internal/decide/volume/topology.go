package volume

import (
	"slices"
	"strings"
)

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

// Member is the value of the label by which a node reaches the volumes of a storage.
const Member = "true"

// ReadStorages reads topology segments in which every storage has a label of its own: prefix and its name. A segment is about every storage
// that it names, and allows no other; one that names none allows none.
func ReadStorages(prefix string, requisite, preferred []map[string]string) (Topology, error) {
	t := Topology{Requisite: storages(prefix, requisite), Preferred: storages(prefix, preferred)}
	if len(requisite) > 0 && len(t.Requisite) == 0 {
		return t, Refuse(Exhausted, "no label %q is in the topology that was asked for: its nodes reach no storage of the driver", prefix+"NAME")
	}
	return t, nil
}

func storages(prefix string, segments []map[string]string) []string {
	var out []string
	for _, s := range segments {
		for key, value := range s {
			if name, ok := strings.CutPrefix(key, prefix); ok && value == Member {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
