package writer

// secure grants keys to nodes that have none of this boot, and fences those that a person said are off. It reports whether it did something.
func (w *world) secure(p *process) bool {
	for _, n := range w.names {
		m, g := w.machines[n], w.api.granted[n]
		missing := w.lun.keys[n] != g.key || m.path || !w.lun.reserved && w.mayReserve(n)
		switch {
		case p.name == "engine" && m.reach() && g.boot != m.boot:
			w.keys++
			w.tell("granted to %s for boot %d: key %d", n, m.boot, w.keys)
			next := grant{key: w.keys, boot: m.boot}
			if k := w.lun.keys[n]; k != 0 && (k == g.key || k == g.previous) {
				next.previous = k
			}
			w.api.granted[n], w.api.fenced[n] = next, false
			delete(w.api.tainted, n)
			return true
		case p.name == "engine" && m.reach() && !w.api.fenced[n] && missing && w.rand.IntN(3) == 0:
			// A node that has volumes mapped refuses: other work has to go on meanwhile.
			g.asked++
			w.api.granted[n] = g
			w.tell("%s asks %s to register, for the %d. time", p.self(), n, g.asked)
			w.ask(p, message{
				to: n, kind: "register", key: g.key, boot: g.boot, reserve: !w.lun.reserved && w.mayReserve(n), own: w.lun.own(n), shuts: w.shutOut(n),
			})
			return true
		case w.preempts(p, n):
			return true
		}
	}
	return false
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
