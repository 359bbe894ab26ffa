package writer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/sharedlun"
)

// confirms reports whether a node has its key on a LUN that is reserved.
func (l lun) confirms(node string) bool { return l.reserved && l.keys[node] != 0 }

// reservation is what the target says of its keys.
func (l lun) reservation() sharedlun.Reservation {
	r := sharedlun.Reservation{Supported: true}
	for _, k := range l.keys {
		r.Keys = append(r.Keys, uint64(k))
	}
	if l.reserved && len(r.Keys) > 0 {
		// Every key holds the reservation, so that it ends with the last of them.
		r.Type = sharedlun.WriteExclusiveAllRegistrants
	}
	return r
}

// reading is what was read of the keys on the LUN, with what the Members said before.
type reading struct {
	lun
	before []KeyRecord
}

// records are what the Members say of keys now.
func (w *world) records() []KeyRecord {
	var out []KeyRecord
	for _, n := range w.names {
		g := w.api.granted[n]
		r := KeyRecord{Node: n, Key: uint64(g.key), Fenced: w.api.fenced[n], Registering: g.asked > 0 && !w.lacks(opens)}
		for _, key := range g.previous {
			r.Previous = append(r.Previous, uint64(key))
		}
		out = append(out, r)
	}
	return out
}

// current drops a reading that was made when the Members said something else: a key may have been registered since.
func (w *world) current(r *reading) *reading {
	if r == nil || !slices.EqualFunc(r.before, w.records(), KeyRecord.Equal) && !w.lacks(sandwich) {
		return nil
	}
	return r
}

// registering reports whether a command to register of a node is under way, even of an agent that ended.
func (w *world) registering(m *machine) bool {
	return slices.ContainsFunc(w.registers, func(r *register) bool { return r.node == m.name && r.boot == m.boot })
}

// mayRegister reports whether an agent sends the command to register.
func (w *world) mayRegister(m *machine, msg *message) bool {
	if msg.boot != m.boot || !w.replaces(m.name, msg) {
		return false
	}
	if w.fills(m) && w.lun.keys[m.name] != msg.key {
		return false
	}
	return len(m.maps) == 0 || w.lun.keys[m.name] == msg.key || w.lacks(remaps) || !w.lun.reserved && (w.lacks(owns) || m.mapsOnly(msg.own))
}

// replaces reports whether the target lets a node register a key: it has none, that one, or one that it was told of.
func (w *world) replaces(node string, msg *message) bool {
	have := w.lun.keys[node]
	return !w.mood.strict || have == 0 || have == msg.key || slices.Contains(msg.old, have)
}

// foreign are the keys on the LUN that no Member has on record.
func (w *world) foreign() []int {
	var out []int
	records := w.records()
	for _, n := range slices.Sorted(maps.Keys(w.lun.keys)) {
		if _, known := Owner(records, uint64(w.lun.keys[n])); !known {
			out = append(out, w.lun.keys[n])
		}
	}
	return out
}

// mapsOnly reports whether a node has no devices but those of some volumes.
func (m *machine) mapsOnly(own map[string]bool) bool {
	for v := range m.maps {
		if !own[v] {
			return false
		}
	}
	return true
}

// own are the volumes that the LUN says are a node's.
func (l lun) own(node string) map[string]bool {
	out := map[string]bool{}
	for v, c := range l.volumes {
		if c.node == node {
			out[v] = true
		}
	}
	return out
}

// busy reports whether a node has a volume mapped that is its own.
func (w *world) busy(m *machine) bool {
	for v := range m.maps {
		if m.on && w.lun.volumes[v].node == m.name {
			return true
		}
	}
	return false
}

// mayReserve reports whether a node may reserve the LUN after it has registered its key: whoever works with a volume of its own has its key again. Of a node that
// does not answer nobody knows what it has mapped, until a person says that it is off. It is not waited for while a fenced node may run.
func (w *world) mayReserve(node string) bool {
	if w.lun.reserved {
		return false
	}
	for _, n := range w.names {
		m, g := w.machines[n], w.api.granted[n]
		switch {
		case n == node, w.api.fenced[n], !m.reach() && w.fencedRuns(), g.key != 0 && w.lun.keys[n] == g.key, w.lacks(reserves):
		case m.reach() && w.busy(m), !m.reach() && !w.api.tainted[n] && len(w.lun.own(n)) > 0:
			return false
		}
	}
	return true
}

// fencedRuns reports whether a node that was fenced is not known to have been booted since.
func (w *world) fencedRuns() bool {
	return slices.ContainsFunc(w.names, func(n string) bool {
		m := w.machines[n]
		return w.api.fenced[n] && (!m.reach() || m.boot == w.api.granted[n].boot)
	})
}

// shutOut are the nodes that would be kept from volumes of their own, were the LUN reserved now. Those that a person said are off are not counted.
func (w *world) shutOut(node string) []string {
	var out []string
	for _, n := range w.names {
		if m := w.machines[n]; n != node && w.busy(m) && (m.reach() || !w.fencedRuns()) && w.lun.keys[n] == 0 && !w.api.fenced[n] && !w.api.tainted[n] {
			out = append(out, n)
		}
	}
	return out
}

// notKnown is what an agent says when the target did not answer in time.
const notKnown = "not known"

// landRegister lets the target register a key. The agent reserves the LUN then, if it was told to, and if whoever told it still waits. At times it does not wait for
// the target, and says so.
func (w *world) landRegister(i int) {
	r := w.registers[i]
	if w.rand.IntN(8) == 0 && !r.of.done {
		r.of.failed, r.of.done = notKnown, true
		return
	}
	if m := w.machines[r.node]; m != nil && m.blind {
		w.loseRegister(i)
		return
	}
	w.registers = slices.Delete(w.registers, i, i+1)
	if w.turnsDown(r) {
		return
	}
	w.lun.keys[r.node] = r.key
	w.tell("registered: key %d of %s", r.key, r.node)
	m := w.machines[r.node]
	if r.of.reserve && r.of.incarnation == m.incarnation && w.procs[0].call == r.of && !w.lun.reserved {
		w.tell("reserved by %s", r.node)
		w.lun.reserved = true
		for _, n := range w.shutOut(r.node) {
			if slices.Contains(r.of.shuts, n) {
				w.fail("%s reserved the LUN, and shut %s out from volumes of its own", r.node, n)
			}
		}
	}
	m.path = false
	if r.of.incarnation == m.incarnation && !r.of.done {
		r.of.done = true
	}
}

// turnsDown reports whether the target refuses to register a key, and says so to whoever still waits.
func (w *world) turnsDown(r *register) bool {
	if !w.replaces(r.node, r.of) {
		if m := w.machines[r.node]; r.of.incarnation == m.incarnation && !r.of.done {
			r.of.failed, r.of.done = "another key", true
		}
		return true
	}
	if w.mood.strict && slices.Contains(w.foreign(), w.lun.keys[r.node]) {
		w.adopted++
	}
	return false
}

// loseRegister has the kernel of a node that has lost the LUN wait on, or give a command to register up, which the target has done before or never sees.
func (w *world) loseRegister(i int) {
	r := w.registers[i]
	if w.rand.IntN(4) != 0 {
		return
	}
	w.registers = slices.Delete(w.registers, i, i+1)
	if w.rand.IntN(2) == 0 && w.replaces(r.node, r.of) {
		w.lun.keys[r.node] = r.key
	}
	if !r.of.done {
		r.of.failed, r.of.done = notKnown, true
	}
}

// preempt takes a key off, whoever has it, and aborts what the target still has of that node. A key that is not there needs no work.
func (w *world) preempt(key int) {
	for n, k := range w.lun.keys {
		if k != key || w.lacks(fences) {
			continue
		}
		delete(w.lun.keys, n)
		w.copies.drop(n)
		w.writes = slices.DeleteFunc(w.writes, func(x *write) bool {
			if x.node == n {
				w.answer(x, "aborted")
			}
			return x.node == n
		})
	}
}

// lose has the target forget its keys, and that the LUN is reserved. A node that a fence kept out may write again at that moment, which nobody can prevent: it does not
// happen while another node has the same volume.
func (w *world) lose() {
	if w.strays() {
		return
	}
	for _, v := range volumes {
		on := 0
		for m := range w.all() {
			if m.on && m.maps[v] {
				on++
			}
		}
		if on > 1 {
			return
		}
	}
	w.tell("the target lost its keys")
	w.lost++
	w.lun.keys, w.lun.reserved = map[string]int{}, false
}

// with adds a node that a volume was taken from by a fence; one that it was unmapped on has no boot.
func (c claim) with(node string, boot int) string {
	reader := fmt.Sprintf("%s/%d", node, boot)
	all := strings.Fields(c.readers)
	if boot == 0 || slices.Contains(all, reader) {
		return c.readers
	}
	return strings.Join(append(all, reader), " ")
}

// lessReader takes a node off the readers.
func (c claim) lessReader(node string, boot int) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(c.readers), func(r string) bool { return r == fmt.Sprintf("%s/%d", node, boot) }), " ")
}

// unbooted reports whether a node that a volume was taken from is not known to have another boot.
func (c claim) unbooted(reported map[string]int) bool {
	for _, reader := range strings.Fields(c.readers) {
		node, boot, _ := strings.Cut(reader, "/")
		if now := reported[node]; now == 0 || fmt.Sprint(now) == boot {
			return true
		}
	}
	return false
}

// unread holds a removal against those who could still read: what lies there next is another tenant's.
func (w *world) unread(volume string) {
	for _, n := range w.names {
		if m := w.machines[n]; m.on && m.maps[volume] {
			w.fail("volume %s was removed, and %s reads what comes in its place", volume, n)
		}
	}
}
