package iscsi

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// records are what the Members say of keys: everything that is decided about whose a key is.
func (v *View) records() []writer.KeyRecord {
	var out []writer.KeyRecord
	for _, m := range v.seen.World.Members {
		if r := m.Spec.Reservation; r != nil {
			out = append(out, recordOfKey(string(m.Spec.Node), r))
		}
	}
	return out
}

// recordOfKey reads the keys of a Member. One that cannot be read is none: then it is nobody's on the LUN.
func recordOfKey(node string, r *v1alpha1.MemberReservation) writer.KeyRecord {
	out := writer.KeyRecord{Node: node, Fenced: r.Fenced, Registering: r.Registering != ""}
	if !r.Unfenced {
		out.Key = keyOf(r.Key)
	}
	for _, text := range r.Previous {
		out.Previous = append(out.Previous, keyOf(text))
	}
	return out
}

// keyOf reads a key as a Member has it. One that cannot be read is none.
func keyOf(text string) uint64 {
	key, err := sharedlun.ParseKey(text)
	if err != nil {
		return 0
	}
	return key
}

// foreign counts the registered keys that no Member has on record.
func (v *View) foreign() int { return len(v.foreignKeys()) }

// foreignKeys are the registered keys that no Member has on record.
func (v *View) foreignKeys() []uint64 {
	if !v.seen.Reading.Known {
		return nil
	}
	var out []uint64
	records := v.records()
	for _, key := range v.seen.Reading.Keys.Keys {
		if _, known := writer.Owner(records, key); !known && !slices.Contains(v.seen.Granted, key) {
			out = append(out, key)
		}
	}
	return out
}

// held reports whether whoever has no key is known to be kept from writing.
func (v *View) held() bool { return v.seen.Reading.Known && v.seen.Reading.Keys.Held() }

// registered reports whether the LUN has the key of a member.
func (v *View) registered(m *v1alpha1.Member) bool {
	r := m.Spec.Reservation
	return r != nil && !r.Unfenced && v.seen.Reading.Known && v.seen.Reading.Keys.Has(keyOf(r.Key))
}

// keyless reports whether a node is known to have no key on a LUN that keeps others from writing: it may not write to it, even if it is forgotten. Once the Iscsi
// ends it is about the LUN's next user only: a key that nobody can take off any more stays, and so does that of a lost node on a LUN that a person gave up as it is.
func (v *View) keyless(m *v1alpha1.Member) bool {
	if m == nil || m.Spec.Reservation == nil {
		return true
	}
	if v.removed() {
		return v.sweeper() == "" || !v.hasKeyOf(m.Spec.Reservation) || v.givenUp() && backend.Lost(m)
	}
	r, reading := m.Spec.Reservation, v.seen.Reading
	has := reading.Known && slices.ContainsFunc(reading.Keys.Keys, recordOfKey("", r).Has)
	if r.Fenced {
		return !has
	}
	return !r.Unfenced && v.held() && !has
}

// sweeper names the node that takes keys off the LUN when the Iscsi ends: the one that steps of the whole run on. It is empty when none may.
func (v *View) sweeper() string { return v.sweeperBeside("") }

// sweeperBeside is the sweeper beside a node that leaves.
func (v *View) sweeperBeside(node string) string {
	for _, name := range append([]string{v.seen.Record.Writer}, v.names()...) {
		if name != node && v.usable(name) {
			return name
		}
	}
	return ""
}

// stranded names the silent nodes whose keys another node has to take off the LUN before the Iscsi ends: nobody else could use the LUN with them on it.
func (v *View) stranded() []string {
	var out []string
	for node, m := range v.members {
		if v.removed() && v.seen.Hosts[node].silent() && !v.keyless(m) {
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return out
}

// mayReserve reports whether a node may reserve the LUN once it has its key: nobody has, and nobody is shut out from volumes of its own.
func (v *View) mayReserve(node string) bool {
	r := v.seen.Reading
	return r.Known && r.Keys.Supported && !r.Keys.Held() && len(v.waiting(node)) == 0
}

// waiting names the nodes that are to have their keys before another one reserves the LUN: those that work with volumes of their own, and those that were let in
// without a key. A node that was fenced, or that a person said is off, is not waited for; nor is a silent one while a fenced one may run, which can write to what was
// given to others until the LUN is reserved.
func (v *View) waiting(except string) []string {
	var out []string
	fenced := slices.ContainsFunc(v.seen.World.Members, func(m *v1alpha1.Member) bool {
		r := m.Spec.Reservation
		return r != nil && r.Fenced && !r.Unfenced && !v.booted(m)
	})
	for _, m := range v.seen.World.Members {
		node, r := string(m.Spec.Node), m.Spec.Reservation
		switch {
		case node == except, r == nil, r.Fenced, v.registered(m), v.off(node), fenced && v.seen.Hosts[node].silent():
		case r.Unfenced && !v.booted(m), v.busy(node):
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// off reports whether a person said that a node is off, and its agent is silent.
func (v *View) off(node string) bool {
	h := v.seen.Hosts[node]
	return h.silent() && (h.OutOfService || !v.exists(node))
}

// booted reports whether a node is known to run another boot than the one of its record. One that was fenced in a boot that nobody knows may be in it still, as long as it
// may have volumes mapped.
func (v *View) booted(m *v1alpha1.Member) bool {
	h, boot := v.seen.Hosts[string(m.Spec.Node)], m.Spec.Reservation.BootID
	if boot == sharedlun.UnknownBoot && (!h.Mapped || len(h.Mappings) > 0) {
		return false
	}
	return h.Asked() && h.BootID != boot && v.stranger(m) == ""
}

// stranger returns why a node that answers may be another machine than the one of its record, where no key tells; empty when it is the same.
func (v *View) stranger(m *v1alpha1.Member) string {
	h, r := v.seen.Hosts[string(m.Spec.Node)], m.Spec.Reservation
	if r == nil || !h.Asked() {
		return ""
	}
	why, err := writer.Stranger(writer.GrantedTo(r), string(m.Spec.Node), h.BootID, h.Machine, func() (decide.Everyone, error) { return v.everyone(), nil })
	if err != nil {
		return err.Error()
	}
	return why
}

// Compares reports whether it matters which machines all nodes are: a key of a boot before the one that its node reports is on the LUN, or nothing but its UUID tells that a node is the machine of its
// record.
func (v *View) Compares() bool {
	return slices.ContainsFunc(v.names(), func(node string) bool {
		m, h := v.members[node], v.seen.Hosts[node]
		if m == nil || m.Spec.Reservation == nil || !h.Asked() {
			return false
		}
		return len(v.before(node)) > 0 || writer.GrantedTo(m.Spec.Reservation).Rests(h.BootID, h.Machine)
	})
}

// everyone is all that is known of machines.
func (v *View) everyone() decide.Everyone {
	return decide.Everyone{Members: slices.Concat(v.seen.World.Members, v.seen.World.OtherMembers), Nodes: v.seen.Machines}
}

// busy reports whether a node may have a volume mapped that the LUN says is its own. What a silent node has mapped nobody knows, and what one has that was asked
// before the LUN was seen to be open to all; since then nobody maps anything with a key.
func (v *View) busy(node string) bool {
	h := v.seen.Hosts[node]
	switch {
	case !h.Asked(), h.At.Before(v.open), v.rec.group != "" && !h.Mapped:
		return len(v.heldBy(node)) > 0
	case v.group() == nil:
		return len(h.Mappings) > 0
	}
	return slices.ContainsFunc(v.group().Volumes, func(volume sharedlun.Volume) bool { return volume.HeldBy == node && h.maps(volume.UUID) })
}

// ownOnly reports whether a node has nothing mapped but volumes that the LUN says are its own.
func (v *View) ownOnly(node string) bool {
	h, g := v.seen.Hosts[node], v.group()
	if g == nil || !h.Mapped {
		return false
	}
	return !slices.ContainsFunc(h.Mappings, func(m sharedlun.Mapping) bool {
		return !slices.ContainsFunc(g.Volumes, func(volume sharedlun.Volume) bool { return volume.UUID == m.VolumeUUID && volume.HeldBy == node })
	})
}

// unfenced reports whether a node was let in without a key, and may run on with what it has mapped.
func (v *View) unfenced() bool {
	return slices.ContainsFunc(v.seen.World.Members, func(m *v1alpha1.Member) bool {
		r := m.Spec.Reservation
		return r != nil && r.Unfenced && !r.Fenced && !v.booted(m)
	})
}

// switches reports whether nodes that were let in without keys get them now: the target keeps reservations by now, and nobody can be hurt, for nothing is mapped,
// held, or being changed anywhere. Once one of them has a key the others follow.
func (v *View) switches() bool {
	r := v.seen.Reading
	if !r.Known || !r.Keys.Supported || !v.unfenced() {
		return false
	}
	return v.rec.Reserves || v.quiet()
}

// quiet reports whether nobody has a key on the LUN, and nothing is mapped, held, or being changed anywhere.
func (v *View) quiet() bool {
	r, record := v.seen.Reading, v.seen.Record
	if len(r.Keys.Keys) > 0 || r.Keys.Held() || record.Taken != "" || len(record.Pending) > 0 || v.rec.group != "" && v.group() == nil {
		return false
	}
	for _, m := range v.seen.World.Members {
		h := v.seen.Hosts[string(m.Spec.Node)]
		if m.Spec.Reservation != nil && !m.Spec.Reservation.Fenced && (!h.Up() || len(h.Mappings) > 0 || v.rec.group != "" && !h.Mapped) {
			return false
		}
	}
	return !slices.ContainsFunc(v.volumes(), func(volume sharedlun.Volume) bool { return volume.HeldBy != "" })
}

// exchange gives a node that was let in without a key one for the boot that it is in, once nobody can be hurt by that.
func (h host) exchange() []backend.Step {
	if !h.view.switches() {
		return nil
	}
	s := h.step(v1alpha1.ActionGrantKey, "The target keeps persistent reservations by now, and the node was let in without a key.")
	s.Target, s.BootID, s.Initiator, s.Exchange = h.view.target, h.BootID, h.Initiator.Name, true
	s.Key = h.reservation().Key
	return []backend.Step{s}
}

// reserves says what a LUN that nobody has reserved waits for.
func (v *View) reserves() string {
	if names := v.waiting(""); len(names) > 0 {
		return "It is reserved once these nodes have their keys again, which have volumes mapped: " + backend.Shorten(names, maxNamed) + "."
	}
	return "The next node that registers its key reserves it."
}

// unreserved says what the reservation of the LUN waits for, which only nodes with keys may write to then.
func (h host) unreserved() backend.Finding {
	return bad(v1alpha1.ReasonNotReserved, fmt.Sprintf("has its key, and nobody has reserved the LUN. It is reserved once these nodes have their keys, which have volumes mapped: %s. "+
		"Bring them back; of one that is off, taint its Node with %s", backend.Shorten(h.view.waiting(h.m.Node), maxNamed), v1alpha1.TaintOutOfService))
}
