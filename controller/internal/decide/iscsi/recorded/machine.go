package recorded

import (
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

// Ended tells keys of a member that were granted to the machine that answers in a boot, for a boot of it that is over, by what is on record, from all others, which are open. machine is what the Node
// says of the boot that answers; in the boot of the record the record tells. A machine that may be that of another node as well proves nothing.
func Ended(m *v1alpha1.Member, all decide.Everyone, keys []string, bootID, machine string) (ended, open []string) {
	r := m.Spec.Reservation
	if r.BootID == bootID {
		machine = r.Machine
	}
	alone, of := all.Others(string(m.Spec.Node), machine) == "", Machines(r, keys)
	for _, key := range keys {
		over := bootID != "" && (key != r.Key || r.BootID != bootID)
		if over && alone && decide.SameMachine(of[key], machine) {
			ended = append(ended, key)
		} else {
			open = append(open, key)
		}
	}
	return ended, open
}
