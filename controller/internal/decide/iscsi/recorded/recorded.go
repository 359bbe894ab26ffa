// Package recorded says what the Members of one Iscsi have on record of its LUN and its volume group. The record outranks what is seen.
package recorded

import (
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Record is what Members say together.
type Record struct {
	// Lun that members joined, and IQN, the target that has it; nil and empty before the first one did.
	Lun *sharedlun.Identity
	IQN string
	// Groups are the UUIDs of the groups, ordered: one, or none before there was one; several contradict each other.
	Groups []string
	// Forming is the node through which the group is being made; empty when that never began.
	Forming string
	// Reserves is true when some Member was granted a key: the target keeps reservations. Keyless is true when some Member was let in without one: it said that it keeps none.
	Reserves, Keyless bool
	// Conflict says which records contradict each other; empty when none do.
	Conflict string
}

// Group is the UUID of the group; empty before there was one, and where Members name several.
func (r Record) Group() string {
	if len(r.Groups) != 1 {
		return ""
	}
	return r.Groups[0]
}

// Of takes the records of all Members of one Iscsi together.
func Of(members []*v1alpha1.Member) Record {
	var r Record
	var luns []string
	for _, m := range members {
		if l := m.Spec.Lun; l != nil {
			luns = append(luns, l.WWID+" "+l.Serial)
			r.take(l)
		}
		if g := m.Spec.Group; g != nil && g.UUID != "" {
			r.Groups = append(r.Groups, g.UUID)
		} else if g != nil {
			r.Forming = string(m.Spec.Node)
		}
		if k := m.Spec.Reservation; k != nil {
			r.Reserves, r.Keyless = r.Reserves || !k.Unfenced, r.Keyless || k.Unfenced
		}
	}
	slices.Sort(luns)
	slices.Sort(r.Groups)
	luns, r.Groups = slices.Compact(luns), slices.Compact(r.Groups)
	switch {
	case len(luns) > 1:
		r.Conflict = "Members have different LUNs on record: " + strings.Join(luns, "; ")
	case len(r.Groups) > 1:
		r.Conflict = "Members have different volume groups on record: " + strings.Join(r.Groups, ", ")
	}
	return r
}

// take takes in the record of one Member. The sizes differ where a LUN grew in between: the largest that was seen counts.
func (r *Record) take(l *v1alpha1.MemberLun) {
	if r.IQN == "" {
		r.IQN = l.IQN
	}
	if r.Lun == nil || l.Size > r.Lun.SizeBytes {
		r.Lun = &sharedlun.Identity{WWID: l.WWID, Serial: l.Serial, SizeBytes: l.Size}
	}
}
