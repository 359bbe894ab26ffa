package recorded

import (
	"maps"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Machines returns the machines that keys of a record were granted to, by key, as far as the record says it. keys are those of earlier boots, and that of the record's own boot.
func Machines(r *v1alpha1.MemberReservation, keys []string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		of := r.Machines[key]
		if key == r.Key {
			of = r.Machine
		}
		if of != "" {
			out[key] = of
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Everyone is all that is known of machines and the nodes that they are.
type Everyone struct {
	// Members of all storages, of those too that do not exist any more.
	Members []*v1alpha1.Member
	// Nodes are the systemUUIDs of all Nodes, by name; nil when they were not read.
	Nodes map[string]string
}

// Alone reports whether a machine is known to be that of one node only, as far as every record and every Node tells. A UUID that tells no machine from others is nobody's alone.
func (e Everyone) Alone(node, machine string) bool {
	if e.Nodes == nil || decide.Machine(machine) == "" {
		return false
	}
	for name, of := range e.Nodes {
		if name != node && decide.SameMachine(of, machine) {
			return false
		}
	}
	return !slices.ContainsFunc(e.Members, func(m *v1alpha1.Member) bool {
		return string(m.Spec.Node) != node && had(m.Spec.Reservation, machine)
	})
}

// had reports whether a key on record was granted to a machine, in this boot of the record or in an earlier one.
func had(r *v1alpha1.MemberReservation, machine string) bool {
	if r == nil {
		return false
	}
	return slices.ContainsFunc(append(slices.Collect(maps.Values(r.Machines)), r.Machine), func(of string) bool { return decide.SameMachine(of, machine) })
}

// Ended tells keys of a member that were granted to the machine that answers in a boot, for a boot of it that is over, by what is on record, from all others, which are open. machine is what the Node
// says of the boot that answers; in the boot of the record the record tells. A machine that may be that of another node as well proves nothing.
func Ended(m *v1alpha1.Member, all Everyone, keys []string, bootID, machine string) (ended, open []string) {
	r := m.Spec.Reservation
	if r.BootID == bootID {
		machine = r.Machine
	}
	alone, of := all.Alone(string(m.Spec.Node), machine), Machines(r, keys)
	for _, key := range keys {
		over := bootID != "" && (key != r.Key || r.BootID != bootID)
		if over && alone && of[key] == machine {
			ended = append(ended, key)
		} else {
			open = append(open, key)
		}
	}
	return ended, open
}
