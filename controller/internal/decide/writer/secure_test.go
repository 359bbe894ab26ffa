package writer

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// secure grants keys to nodes that have none of this boot, and fences those that a person said are off. It reports whether it did something.
func (w *world) secure(p *process) bool {
	for _, n := range w.names {
		m, g := w.machines[n], w.api.granted[n]
		if w.barred(m, g) {
			if w.outlives(p, g) {
				return true
			}
			continue
		}
		switch {
		case p.name == "engine" && m.reach() && g.boot != m.boot:
			w.grant(m, g)
			return true
		case w.asksFor(p, m, g):
			return true
		case w.preempts(p, n):
			return true
		case p.name == "engine" && w.vouches(m, g):
			return true
		}
	}
	return p.name == "engine" && w.rand.IntN(20) == 0 && w.approves(p)
}

// asksFor asks a node to register its key.
func (w *world) asksFor(p *process, m *machine, g grant) bool {
	if p.name != "engine" || !m.reach() || w.api.fenced[m.name] || !w.lacksKey(m) || w.rand.IntN(3) != 0 {
		// A node that has volumes mapped refuses: other work has to go on meanwhile.
		return false
	}
	g.asked++
	w.api.granted[m.name] = g
	w.tell("%s asks %s to register, for the %d. time", p.self(), m.name, g.asked)
	w.ask(p, message{
		to: m.name, kind: "register", key: g.key, boot: g.boot, reserve: w.mayReserve(m.name), own: w.lun.own(m.name), shuts: w.shutOut(m.name), old: w.replaced(g),
	})
	return true
}

// barred reports whether a node that was booted gets no key for now.
func (w *world) barred(m *machine, g grant) bool {
	return w.mood.strict && m.reach() && g.boot != m.boot && w.extra.IntN(3) != 0
}

// approves has keys taken off that are no member's current ones, as a person approves it.
func (w *world) approves(p *process) bool {
	by := p.facts.pick("")
	current := map[int]bool{}
	for _, n := range w.names {
		current[w.api.granted[n].key] = true
	}
	for _, n := range slices.Sorted(maps.Keys(w.lun.keys)) {
		if key := w.lun.keys[n]; by != "" && !current[key] && !w.lacks(fences) {
			w.ask(p, message{to: by, kind: "preempt", node: n, key: key})
			return true
		}
	}
	return false
}

// outlives has a key of an earlier boot taken off, as a person approves it, of a node that was booted and gets no key.
func (w *world) outlives(p *process, g grant) bool {
	by, keys := p.facts.pick(""), w.onLUN(append(slices.Clone(g.previous), g.key))
	if p.name != "engine" || by == "" || len(keys) == 0 || w.extra.IntN(4) != 0 {
		return false
	}
	w.ask(p, message{to: by, kind: "preempt", key: keys[0]})
	w.outlived++
	return true
}

// replaced are the keys that a node is told to replace: those of its earlier boots and, if a person approves it, those that no Member has.
func (w *world) replaced(g grant) []int {
	if !w.mood.strict {
		return nil
	}
	out := slices.Clone(g.previous)
	if !w.lacks(adopts) && w.extra.IntN(4) == 0 {
		out = append(out, w.foreign()...)
	}
	return out
}

// lacksKey reports whether a node is to register its key, or to reserve the LUN.
func (w *world) lacksKey(m *machine) bool {
	return w.lun.keys[m.name] != w.api.granted[m.name].key || m.path || w.mayReserve(m.name)
}

// vouches has a person say that a fenced node is off: nothing waits in its kernel any more.
func (w *world) vouches(m *machine, g grant) bool {
	if !w.api.fenced[m.name] || g.asked == 0 || m.on || w.rand.IntN(4) != 0 {
		return false
	}
	g.asked = 0
	w.api.granted[m.name] = g
	return true
}

// grant puts a key for the boot of a node on record, with the one of before if the LUN has it.
func (w *world) grant(m *machine, before grant) {
	w.keys++
	w.tell("granted to %s for boot %d: key %d", m.name, m.boot, w.keys)
	next := grant{key: w.keys, boot: m.boot, previous: w.onLUN(append(slices.Clone(before.previous), before.key))}
	w.api.granted[m.name], w.api.fenced[m.name] = next, false
	delete(w.api.tainted, m.name)
}

// preempts has the key of a node taken off of which a person said that it is off.
func (w *world) preempts(p *process, n string) bool {
	by := p.facts.pick("")
	if !w.api.tainted[n] || w.api.fenced[n] || w.machines[n].reach() || by == "" || by == n {
		return false
	}
	w.ask(p, message{to: by, kind: "preempt", node: n, key: w.api.granted[n].key, previous: w.api.granted[n].previous})
	return true
}

// onLUN returns those of some keys that are on the LUN.
func (w *world) onLUN(keys []int) []int {
	return slices.DeleteFunc(keys, func(key int) bool {
		return key == 0 || !slices.Contains(slices.Collect(maps.Values(w.lun.keys)), key)
	})
}

// believed reports whether what a node said counts: another machine may have its name by now.
func (w *world) believed(node string) bool {
	g, m := w.api.granted[node], w.machines[node]
	earlier := slices.Clone(g.previous)
	if g.boot != m.boot {
		earlier = append(earlier, g.key)
	}
	if w.lacks(itself) || w.lacks(fences) {
		return true
	}
	if w.lacks(known) {
		return len(w.onLUN(earlier)) == 0
	}
	keys := make([]uint64, 0, len(earlier))
	for _, key := range earlier {
		keys = append(keys, uint64(key))
	}
	return Disbelief(node, keys, w.records(), uint64(w.api.granted[w.api.record.Writer].key), w.lun.reservation()) == ""
}

// all are all machines, those among them whose names others have now.
func (w *world) all() iter.Seq[*machine] {
	return func(yield func(*machine) bool) {
		for _, m := range w.twins {
			if !yield(m) {
				return
			}
		}
		for _, n := range w.names {
			if !yield(w.machines[n]) {
				return
			}
		}
	}
}

// usurp has another machine take a node's name. The earlier one goes on: it keeps its key, its devices, and what it sent.
func (w *world) usurp(m *machine) {
	if !m.on || len(w.twins) > 1 {
		return
	}
	twin := &machine{name: fmt.Sprintf("%s'%d", m.name, len(w.twins)), on: true, boot: m.boot, maps: m.maps}
	w.tell("another machine is %s: the earlier one is %s", m.name, twin.name)
	w.twins = append(w.twins, twin)
	if key := w.lun.keys[m.name]; key != 0 {
		w.lun.keys[twin.name] = key
		delete(w.lun.keys, m.name)
	}
	for _, x := range w.writes {
		if x.node == m.name {
			x.node = twin.name
		}
	}
	twin.fill, m.fill = m.fill, nil
	w.copies.rename(m.name, twin.name)
	m.seen = 0
	w.power(m, true)
}
