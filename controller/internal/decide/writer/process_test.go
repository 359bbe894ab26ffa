package writer

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

var volumes = []string{"a", "b"}

// process is the controller or the CSI controller: it follows Next, attaches and detaches, and never knows more than it was told.
type process struct {
	name        string
	incarnation int
	// stalled is how many steps it stands still, in the middle of whatever it did.
	stalled int
	facts   Facts
	seq     uint64
	claims  map[string]claim
	keys    *reading
	call    *message
	asked   Action
	goal    goal
	// sinceRecord counts the steps in which somebody else's record did not change.
	version, sinceRecord int
	// late is the version over which a write of it has no answer.
	late int
	done int
	// steps that it took, and until which one it takes a node for one that failed.
	steps  int
	failed map[string]int
}

// remembers is for how many of its steps a process remembers that a node failed.
const remembers = 60

// blame remembers that a node failed.
func (p *process) blame(w *world, node string) {
	if !w.lacks(shuns) {
		p.failed[node] = p.steps + remembers
	}
}

// goal is what a process wants: a volume on a node, or away from it. mine is true once the volume is marked as leaving by this goal.
type goal struct {
	kind, volume, node string
	unmapped           bool
	// filled is the copy of which its node said that it is done.
	filled int
	// keys are those on the LUN, as read for the release of this volume.
	keys *reading
	// asked are the nodes that said that they have no device of a volume that is to be removed.
	asked map[string]bool
}

// unknownBoot is that of a node that was fenced while no key of it was on record.
const unknownBoot = -2

// patience is how many of its steps a process waits before it calls another one's record stale.
const patience = 12

func (w *world) newProcess(name string) *process {
	p := &process{name: name, late: -1}
	p.forget(w)
	return p
}

// forget is what a start anew leaves.
func (p *process) forget(w *world) {
	p.incarnation++
	p.call, p.goal = nil, goal{}
	p.failed = map[string]int{}
	p.facts = Facts{
		Self: p.self(), Members: w.names, Up: map[string]bool{}, Failed: map[string]bool{}, Fenced: map[string]bool{}, Doubts: map[string]string{},
	}
	p.fresh(w)
}

func (p *process) self() string {
	return p.name + "-" + string(rune('a'+p.incarnation%26)) + string(rune('a'+p.incarnation/26%26))
}

// fresh drops what a process knows only for as long as it has the record.
func (p *process) fresh(w *world) {
	if !w.lacks(forgets) {
		p.goal.unmapped, p.goal.keys, p.goal.asked, p.goal.filled = false, nil, nil, 0
	}
	p.keys = nil
	p.facts.Unanswered, p.facts.Read, p.facts.GroupEpoch = "", false, 0
	p.facts.Promised, p.facts.Silent = map[string]uint64{}, map[string]string{}
	p.claims = nil
}

// step lets a process do one thing.
func (w *world) step(p *process) {
	p.steps++
	if p.stalled > 0 {
		p.stalled--
		return
	}
	if p.call != nil {
		w.hear(p)
		return
	}
	w.look(p)
	if w.secure(p) {
		return
	}
	if p.goal.kind == "" {
		p.goal = w.choose()
		w.chooseCopy(&p.goal)
	}
	action := Next(w.api.record, p.facts)
	p.asked = action
	switch {
	case action.Write != nil:
		w.write(p, *action.Write)
	case action.Promise != "":
		w.ask(p, message{to: action.Promise, kind: "promise", epoch: w.api.record.Epoch})
	case action.Read != "":
		w.ask(p, message{to: action.Read, kind: "read"})
	case action.Keys != "":
		w.ask(p, message{to: action.Keys, kind: "keys"})
	case action.TakeOver != "":
		w.ask(p, message{to: action.TakeOver, kind: "takeover", epoch: w.api.record.Epoch, seq: p.seq})
	case action.MayChange:
		w.goOn(p)
	default:
		// Those that did not answer are asked again, and the keys are read again.
		p.facts.Silent, p.keys = map[string]string{}, nil
	}
}

// choose takes a goal; often one that has to do with a fence.
func (w *world) choose() goal {
	g := goal{
		kind: []string{"attach", "attach", "attach", "detach", "detach", "remove"}[w.rand.IntN(6)], volume: volumes[w.rand.IntN(2)],
		node: w.names[w.rand.IntN(len(w.names))],
	}
	switch now := w.lun.volumes[g.volume]; {
	case w.mood.fences && now.node == "":
		g.kind = []string{"attach", "attach", "attach", "remove"}[w.rand.IntN(4)]
	case w.mood.fences && !w.api.fenced[now.node] && w.rand.IntN(4) != 0:
		g.kind, g.node = "attach", now.node
	case w.rand.IntN(2) == 0 && (now.node == "" || !w.machines[now.node].blind):
	case now.node != "" && (w.api.fenced[now.node] || w.api.tainted[now.node] || w.machines[now.node].blind):
		g.kind, g.node = "detach", now.node
	case now.node == "" && now.readers != "":
		g.kind = "remove"
	}
	return g
}

// look learns what the API server and the agents' connections say.
func (w *world) look(p *process) {
	if w.api.version != p.version {
		p.version, p.sinceRecord = w.api.version, 0
		unanswered := p.facts.Unanswered
		p.fresh(w)
		p.facts.Unanswered = unanswered
	} else {
		p.sinceRecord++
	}
	p.facts.Stale = p.sinceRecord > patience
	p.facts.Late = p.late == p.version && !w.lacks(anew)
	p.keys, p.goal.keys = w.current(p.keys), w.current(p.goal.keys)
	clear(p.facts.Up)
	clear(p.facts.Fenced)
	for _, n := range w.names {
		m := w.machines[n]
		g := w.api.granted[n]
		p.facts.Fenced[n] = w.api.fenced[n] || w.lacks(yields)
		p.facts.Failed[n] = p.failed[n] > p.steps
		p.facts.Up[n] = m.reach() && g.key != 0 && g.boot == m.boot && !w.api.fenced[n]
		p.facts.Doubts[n] = w.doubt(n, p.keys)
	}
	p.facts.KeysRead = p.keys != nil || w.lacks(yields) || w.lacks(rereads)
}

// doubt is why a fence does not count, by keys that were read.
func (w *world) doubt(node string, read *reading) string {
	if read == nil || w.lacks(yields) || w.lacks(rereads) {
		return ""
	}
	return Doubt(node, w.records(), uint64(w.api.granted[w.api.record.Writer].key), read.reservation())
}

// write is a compare and swap of the record. At times it has no answer, and arrives later.
func (w *world) write(p *process, r Record) {
	if p.version != w.api.version {
		return
	}
	if w.mood.late && w.lag.IntN(4) == 0 {
		w.tell("%s writes %+v, and gets no answer", p.self(), r)
		w.late = append(w.late, lateRecord{version: p.version, next: r})
		p.late = p.version
		return
	}
	newEpoch := r.Epoch != w.api.record.Epoch || r.Taken != w.api.record.Taken
	w.api.record = r
	w.tell("%s writes %+v", p.self(), r)
	w.api.version++
	p.version, p.sinceRecord = w.api.version, 0
	if newEpoch {
		p.fresh(w)
	}
}

// arrive lets a write of the record arrive that had no answer; more often than not in the middle of a change, of which it says nothing. What delayed it may keep the
// writer from the network as well.
func (w *world) arrive() {
	if len(w.late) == 0 || w.lag.IntN(60) != 0 && (len(w.writes) == 0 || w.lag.IntN(6) != 0) {
		return
	}
	i := w.lag.IntN(len(w.late))
	late := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	if late.version != w.api.version {
		return
	}
	w.tell("late: %+v", late.next)
	w.api.record = late.next
	w.api.version++
	w.arrived++
	if m := w.machines[w.api.record.Writer]; m != nil && w.mood.late && w.lag.IntN(3) == 0 {
		m.cut = true
	}
}

// ask sends a request. Without a connection nothing was sent.
func (w *world) ask(p *process, msg message) {
	if msg.kind == "keys" {
		msg.keys = &reading{before: w.records()}
	}
	p.call = w.send(msg)
	if p.call == nil {
		p.facts.Silent[msg.to] = "no connection"
		if w.ends(msg) {
			p.goal = goal{}
		}
		return
	}
	if w.rand.IntN(6) == 0 && msg.kind != "register" {
		// The request arrives twice.
		again := msg
		again.first = p.call
		w.send(again)
	}
}

// hear looks whether the answer is there, or gives up waiting for it.
func (w *world) hear(p *process) {
	c := p.call
	if c.done {
		p.call = nil
		w.learn(p, c)
		return
	}
	if w.rand.IntN(w.mood.patience) != 0 {
		return
	}
	p.call = nil
	p.facts.Silent[c.to] = "no answer"
	if c.kind == "register" && w.lacks(hears) {
		w.learnKeys(p, c)
	}
	if c.change() {
		p.blame(w, c.to)
		p.unanswered(w, c)
	}
	if w.ends(*c) {
		p.goal = goal{}
	}
}

// unanswered remembers to whom a change was sent that has no answer.
func (p *process) unanswered(w *world, c *message) {
	if !w.lacks(answers) {
		p.facts.Unanswered = c.to
	}
}

// ends reports whether a goal is given up when a request has no answer. A volume of a node that is fenced can be taken away without it.
func (w *world) ends(m message) bool {
	return m.kind == "map" || m.kind == "fill" || m.kind == "unmap" && (!w.api.fenced[m.to] || w.lun.volumes[m.volume].node != m.to)
}

// learn takes an answer.
func (w *world) learn(p *process, c *message) {
	if c.failed == noLUN || c.failed == noKey || c.failed == ioError || c.failed != "" && w.rand.IntN(16) == 0 {
		// Whom a process takes for one that failed decides nothing about what is safe: at times it is mistaken.
		p.blame(w, c.to)
	}
	switch c.kind {
	case "promise":
		if c.failed == "" && !w.believed(c.to) {
			c.failed = "a key of an earlier boot is on the LUN"
		}
		if c.failed == "" {
			p.facts.Promised[c.to] = c.promised
		} else {
			p.facts.Silent[c.to] = c.failed
		}
	case "read":
		if c.failed != "" {
			return
		}
		p.facts.Read, p.facts.GroupEpoch, p.facts.WriterPromised, p.seq, p.claims = true, c.read.epoch, c.promised, c.read.seq, c.read.volumes
	case "preempt", "register", "keys":
		w.learnKeys(p, c)
	case "unmap", "map", "fill":
		w.learnDevice(p, c)
	default:
		// Whatever came of a change, the group is read again.
		p.facts.Read = false
		if c.failed == ioError {
			w.ended++
			p.unanswered(w, c)
		}
	}
}

// learnKeys takes an answer about keys.
func (w *world) learnKeys(p *process, c *message) {
	switch {
	case c.kind == "preempt" && c.failed == "" && w.api.granted[c.node].key == c.key:
		w.api.fenced[c.node] = true
		w.fences++
	case c.kind == "register":
		w.learnKey(c)
	case c.kind == "keys" && c.failed != "":
	case c.kind == "keys" && p.goal.kind != "" && p.asked.MayChange:
		p.goal.keys = c.keys
	case c.kind == "keys":
		p.keys = c.keys
	}
}

// learnKey takes an answer about the key of a node. An earlier request that had no answer may still be on its way. A refusal is an answer.
func (w *world) learnKey(c *message) {
	told := c.failed != notKnown || w.lacks(hears)
	if g := w.api.granted[c.to]; told && g.key == c.key && g.boot == c.boot && (g.asked == 1 || w.lacks(asksOnce)) {
		g.asked, g.previous = 0, w.onLUN(slices.Clone(g.previous))
		w.api.granted[c.to] = g
	}
}

// learnDevice takes an answer about the device of a volume.
func (w *world) learnDevice(p *process, c *message) {
	switch {
	case c.kind == "fill":
		w.learnFill(p, c)
	case c.kind == "unmap" && c.failed != "" && !w.ends(*c) && w.machines[c.to].boot == w.api.granted[c.to].boot:
		// It cannot write, and has the volume open: it is waited for no longer than one that does not answer.
		p.facts.Silent[c.to] = c.failed
	case c.kind == "map" || c.failed != "" || !w.believed(c.to):
		p.goal = goal{}
		p.done++
	case p.goal.kind == "remove" && p.claims[p.goal.volume].node == "":
		if p.goal.asked == nil {
			p.goal.asked = map[string]bool{}
		}
		p.goal.asked[c.to] = true
	default:
		p.goal.unmapped = true
	}
}

// goOn goes on with the goal, while changes may be sent.
func (w *world) goOn(p *process) {
	change := func(kind, node string, boot int) {
		w.ask(p, message{
			to: w.api.record.Writer, kind: kind, epoch: w.api.record.Epoch, seq: p.seq, volume: p.goal.volume, node: node, boot: boot, boots: w.reported(),
		})
	}
	if !w.pursueCopy(p, change) {
		w.pursue(p, change)
	}
}

// pursue goes on with a goal that is not about a copy.
func (w *world) pursue(p *process, change func(kind, node string, boot int)) {
	g := &p.goal
	now := p.claims[g.volume]
	switch {
	case now.leaving, w.lacks(leaves) && g.kind == "detach" && now.node == g.node:
		w.takeAway(p, now, change)
	case g.kind == "attach" && now.node == "" && p.facts.Up[g.node]:
		change("hold", g.node, 0)
	case g.kind == "attach" && now.node == g.node && w.believed(g.node):
		w.ask(p, message{to: g.node, kind: "map", volume: g.volume})
	case g.kind == "detach" && now.node == g.node:
		change("leave", g.node, 0)
	case g.kind == "remove" && now.node == "":
		w.remove(p, now, change)
	default:
		w.reached(p, g.kind != "attach" || now.node != "")
	}
}

// reached ends a goal. If there was anything to reach, the turn is given back at times.
func (w *world) reached(p *process, is bool) {
	p.goal = goal{}
	if !is {
		return
	}
	p.done++
	if w.mood.fences || w.rand.IntN(2) == 0 {
		w.write(p, w.api.record.Idle())
	}
}

// reported are the boots that nodes report now.
func (w *world) reported() map[string]int {
	out := map[string]int{}
	for _, n := range w.names {
		if m := w.machines[n]; m.reach() || w.lacks(boots) {
			out[n] = m.boot
			if w.lacks(boots) {
				out[n] = -1
			}
		}
	}
	return out
}

// takeAway ends what was begun: a volume that is leaving its node is unmapped there, and released. A node that answers is asked, fenced or not.
func (w *world) takeAway(p *process, now claim, change func(kind, node string, boot int)) {
	g := &p.goal
	switch {
	case g.unmapped:
		g.unmapped = false
		change("release", now.node, 0)
	case w.api.fenced[now.node] && p.facts.Silent[now.node] != "" && g.keys == nil && !w.lacks(rereads):
		w.ask(p, message{to: w.api.record.Writer, kind: "keys"})
	case w.api.fenced[now.node] && p.facts.Silent[now.node] != "" && w.doubt(now.node, g.keys) == "":
		change("release", now.node, cmp.Or(w.api.granted[now.node].boot, unknownBoot))
		g.keys = nil
	case p.facts.Silent[now.node] != "" && g.keys != nil:
		// The fence does not count.
		*g = goal{}
	default:
		w.ask(p, message{to: now.node, kind: "unmap", volume: g.volume})
	}
}

// remove removes a volume, once nobody reads it any more.
func (w *world) remove(p *process, now claim, change func(kind, node string, boot int)) {
	for _, reader := range strings.Fields(now.readers) {
		node, boot, _ := strings.Cut(reader, "/")
		if m := w.machines[node]; !m.on && w.api.tainted[node] && w.rand.IntN(2) == 0 {
			// A person vouches that it reads no more.
			ended, _ := strconv.Atoi(boot)
			change("forget", node, ended)
			return
		}
		if !p.goal.asked[node] && !w.lacks(unmaps) {
			w.ask(p, message{to: node, kind: "unmap", volume: p.goal.volume})
			return
		}
	}
	if now.unbooted(w.reported()) {
		p.goal = goal{}
		p.done++
		return
	}
	change("remove", "", 0)
	p.goal = goal{}
	p.done++
}
