package writer

import (
	"fmt"
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
	if l.reserved {
		r.Type = sharedlun.WriteExclusiveRegistrantsOnly
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
		out = append(out, KeyRecord{Node: n, Key: uint64(g.key), Fenced: w.api.fenced[n], Registering: g.asked > 0 && !w.lacks(opens)})
	}
	return out
}

// current drops a reading that was made when the Members said something else: a key may have been registered since.
func (w *world) current(r *reading) *reading {
	if r == nil || !slices.Equal(r.before, w.records()) && !w.lacks(sandwich) {
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
	return msg.boot == m.boot && (len(m.maps) == 0 || w.lun.keys[m.name] == msg.key || w.lacks(remaps))
}

// landRegister lets the target register a key. The first one reserves the LUN.
func (w *world) landRegister(i int) {
	r := w.registers[i]
	w.registers = slices.Delete(w.registers, i, i+1)
	w.lun.keys[r.node], w.lun.reserved = r.key, true
	w.tell("registered: key %d of %s", r.key, r.node)
	m := w.machines[r.node]
	m.path = false
	if r.of.incarnation == m.incarnation {
		r.of.done = true
	}
}

// preempt takes a key off, whoever has it, and aborts what the target still has of that node. A key that is not there needs no work.
func (w *world) preempt(key int) {
	for n, k := range w.lun.keys {
		if k != key || w.lacks(fences) {
			continue
		}
		delete(w.lun.keys, n)
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
	for _, v := range volumes {
		on := 0
		for _, m := range w.machines {
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
