package decide

import (
	"bytes"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// shared are UUIDs that makers of boards left in many of them, in the order of bytes that the text has. A kernel or a firmware may tell the first three fields the other way round.
var shared = []string{
	"00010203-0405-0607-0809-0a0b0c0d0e0f",
	"01020304-0506-0708-090a-0b0c0d0e0f10",
	"03000200-0400-0500-0006-000700080009",
	"07090201-0103-0301-0807-060504030201",
	"11111111-2222-3333-4444-555555555555",
	"12345678-1234-5678-90ab-cddeefaabbcc",
	"4c4c4544-0000-2010-8020-80c04f202020",
	"890e2d14-cacd-45d1-ae66-bc80e8bfeb0f",
	"8e275844-178f-44a8-aceb-a7d7e5178c63",
	"dc698397-fa54-4cf2-82c8-b1b5307a6a7f",
	"deadbeef-dead-beef-dead-beefdeadbeef",
}

// Machine returns what Kubernetes calls the systemUUID of a machine, if it tells the machine from others; empty if many have the same one, as a default of their maker, or if it is no UUID, as what a
// maker left to be filled in, or as the serial number of a frame, which all its partitions have.
func Machine(systemUUID string) string {
	id := uuidOf(systemUUID)
	if id == nil || repeats(id) || repeats(id[4:]) {
		return ""
	}
	if slices.ContainsFunc(shared, func(s string) bool {
		known := uuidOf(s)
		return bytes.Equal(known, id) || bytes.Equal(turned(known), id)
	}) {
		return ""
	}
	return systemUUID
}

// SameMachine reports whether two systemUUIDs may be of one machine: how they are written does not matter.
func SameMachine(a, b string) bool {
	x, y := uuidOf(a), uuidOf(b)
	return x != nil && y != nil && (bytes.Equal(x, y) || bytes.Equal(turned(x), y))
}

// Spelled returns a systemUUID in the one spelling that all of the same machine have, so that they can be compared as text; what is no UUID stays as it is.
func Spelled(systemUUID string) string {
	id := uuidOf(systemUUID)
	if id == nil {
		return systemUUID
	}
	if other := turned(id); bytes.Compare(other, id) < 0 {
		id = other
	}
	return hex.EncodeToString(id)
}

// Everyone is all that is known of machines and the nodes that they are.
type Everyone struct {
	// Members of all storages, of those too that do not exist any more.
	Members []*v1alpha1.Member
	// Nodes are the systemUUIDs of all Nodes, by name; nil when they were not read.
	Nodes map[string]string
}

// Others says who else may be a machine beside a node; empty when it is known to be that of the node only, as far as every record and every Node tells. A UUID that tells no machine from others is nobody's
// alone. Of many it names the first one, so that the text stays the same.
func (e Everyone) Others(node, machine string) string {
	switch {
	case Machine(machine) == "":
		return "it is a default of the maker, which many machines have, or no UUID"
	case e.Nodes == nil:
		return "which other nodes have it was not read"
	}
	for _, name := range slices.Sorted(maps.Keys(e.Nodes)) {
		if name != node && SameMachine(e.Nodes[name], machine) {
			return "node " + name + " has it, too"
		}
	}
	var names []string
	for _, m := range e.Members {
		if string(m.Spec.Node) != node && had(m.Spec.Reservation, machine) {
			names = append(names, string(m.Spec.Node))
		}
	}
	if len(names) > 0 {
		return "a key of node " + slices.Min(names) + " was granted to a machine that has it, too"
	}
	return ""
}

// had reports whether a key on record was granted to a machine, in this boot of the record or in an earlier one.
func had(r *v1alpha1.MemberReservation, machine string) bool {
	if r == nil {
		return false
	}
	return slices.ContainsFunc(append(slices.Collect(maps.Values(r.Machines)), r.Machine), func(of string) bool { return SameMachine(of, machine) })
}

// uuidOf reads a UUID, with hyphens or without; nil when it is none.
func uuidOf(text string) []byte {
	text = strings.TrimSpace(text)
	if parts := strings.Split(text, "-"); len(parts) == 5 && len(parts[0]) == 8 && len(parts[1]) == 4 && len(parts[2]) == 4 && len(parts[3]) == 4 {
		text = strings.Join(parts, "")
	}
	id, err := hex.DecodeString(text)
	if err != nil || len(id) != 16 {
		return nil
	}
	return id
}

// turned returns a UUID with the bytes of its first three fields the other way round.
func turned(id []byte) []byte {
	out := slices.Clone(id)
	for _, field := range [][]byte{out[:4], out[4:6], out[6:8]} {
		slices.Reverse(field)
	}
	return out
}

// repeats reports whether all bytes are the same one.
func repeats(id []byte) bool { return len(bytes.Trim(id, string(id[:1]))) == 0 }
