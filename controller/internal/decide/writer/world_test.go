package writer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// The rules of the protocol that a world can be without. Sequence numbers and epochs guard each other.
const (
	sequences = "an agent compares the sequence number"
	epochs    = "an agent refuses another epoch than the group's, and one older than it yielded to"
	yields    = "a node yields, or is fenced, before the next one writes"
	waits     = "a node yields, and changes, once no earlier command of it writes"
	answers   = "a process does not forget a change that was not answered"
	forgets   = "what a process was told counts while it has the record"
	leaves    = "a volume is marked before it is taken from a node"
	judges    = "a node maps a volume if the LUN says that it is its own"
	fences    = "a fenced node has no key"
)

// lun is what the target has: the content that a write replaces as a whole, and the keys.
type lun struct {
	content
	keys map[string]int // key of each registered node
}

// content is the metadata of the group. A node reads it, and writes it as a whole: nothing but the protocol keeps two nodes from
// replacing each other's.
type content struct {
	epoch, seq uint64
	volumes    map[string]claim
}

// claim is the mark of a volume: the node that may have it active, and whether that is being taken from it.
type claim struct {
	node    string
	leaving bool
}

func (c content) clone() content {
	c.volumes = maps.Clone(c.volumes)
	return c
}

// api is what the API server keeps.
type api struct {
	record  Record
	version int
	// granted and fenced are on the Members: the key of a node with the boot it is for, and whether it was taken off.
	granted map[string]grant
	fenced  map[string]bool
	// tainted is a person's word that the node is off.
	tainted map[string]bool
}

type grant struct{ key, boot int }

func (a api) clone() api {
	a.granted, a.fenced, a.tainted = maps.Clone(a.granted), maps.Clone(a.fenced), maps.Clone(a.tainted)
	a.record.Pending = slices.Clone(a.record.Pending)
	return a
}

// machine is one node. What its agent keeps in memory belongs to an incarnation; seen is on its disk, maps are in its kernel.
type machine struct {
	name        string
	on, cut     bool
	boot        int
	incarnation int
	agent       bool
	seen        uint64
	maps        map[string]bool
	running     *message
}

// write is what a node sent to the target and the target has not done yet.
type write struct {
	node  string
	boot  int
	epoch uint64
	base  uint64
	next  content
	of    *message
}

// message is a request on its way to an agent. One of an agent that ended is lost.
type message struct {
	to          string
	incarnation int
	kind        string
	epoch, seq  uint64
	volume      string
	node        string
	key, boot   int
	// done is set once the answer is on its way; failed says why the agent refused.
	done   bool
	failed string
	read   content
	// promised is the epoch that the node has promised.
	promised uint64
}

// world is everything. broken is the first rule that did not hold.
type world struct {
	rand     *rand.Rand
	lun      lun
	api      api
	backup   *api
	machines map[string]*machine
	names    []string
	// without has the rules that this world does not keep.
	without string
	// mood is how much goes wrong, how soon requests arrive and writes land, of a thousand, and how long a process waits for an answer.
	mood   struct{ trouble, mail, land, patience int }
	mail   []*message
	writes []*write
	procs  []*process
	keys   int
	broken string
	// changes that landed, attached volumes that were mapped: a test in which nothing happens proves nothing.
	changes, mapped, fences int
}

func newWorld(seed uint64, nodes int, without string) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 1)), machines: map[string]*machine{}, without: without}
	w.lun = lun{keys: map[string]int{}, content: content{volumes: map[string]claim{}}}
	w.api = api{granted: map[string]grant{}, fenced: map[string]bool{}, tainted: map[string]bool{}}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		w.names = append(w.names, name)
		w.machines[name] = &machine{name: name, on: true, agent: true, boot: 1, maps: map[string]bool{}}
	}
	w.mood.trouble = []int{3, 10, 40, 80}[w.rand.IntN(4)]
	w.mood.mail = []int{30, 150, 300}[w.rand.IntN(3)]
	w.mood.land = []int{20, 100, 200}[w.rand.IntN(3)]
	w.mood.patience = []int{5, 20, 60}[w.rand.IntN(3)]
	w.procs = []*process{w.newProcess("engine"), w.newProcess("csi")}
	return w
}

// tell prints what happens, for whoever looks for the cause of a failure.
func (w *world) tell(format string, args ...any) {
	if *trace {
		fmt.Fprintf(os.Stdout, format+"\n", args...)
	}
}

// lacks reports whether the world goes without a rule.
func (w *world) lacks(rule string) bool { return strings.Contains(w.without, rule) }

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// reach reports whether requests to a node's agent arrive.
func (m *machine) reach() bool { return m.on && m.agent && !m.cut }

// send puts a request on its way; nil when there is no connection.
func (w *world) send(msg message) *message {
	m := w.machines[msg.to]
	if !m.reach() {
		return nil
	}
	msg.incarnation = m.incarnation
	w.mail = append(w.mail, &msg)
	return &msg
}

// deliver lets an agent look at a request. A request that has to wait stays on its way.
func (w *world) deliver(i int) {
	msg := w.mail[i]
	m := w.machines[msg.to]
	if msg.incarnation != m.incarnation || !m.on || !m.agent {
		w.mail = slices.Delete(w.mail, i, i+1)
		return
	}
	if msg.kind == "map" && w.rand.IntN(4) != 0 {
		// Late orders to map are what may have a volume active twice: they are late more often than others.
		return
	}
	if m.cut || !w.lacks(waits) && (m.running != nil || w.writing(m)) && (msg.kind == "yield" || msg.change()) {
		return
	}
	w.mail = slices.Delete(w.mail, i, i+1)
	if msg.change() {
		w.begin(m, msg)
		return
	}
	msg.failed = w.serve(m, msg)
	w.tell("%s: %s volume %s node %s key %d boot %d epoch %d: %q", m.name, msg.kind, msg.volume, msg.node, msg.key, msg.boot, msg.epoch, msg.failed)
	msg.done = true
}

func (m *message) change() bool {
	return m.kind == "takeover" || m.kind == "hold" || m.kind == "leave" || m.kind == "release"
}

// writing reports whether a command of an agent that ended still writes: LVM's lock file tells a later agent.
func (w *world) writing(m *machine) bool {
	return slices.ContainsFunc(w.writes, func(x *write) bool { return x.node == m.name && x.boot == m.boot })
}

// serve does what needs no change of the group.
func (w *world) serve(m *machine, msg *message) string {
	switch msg.kind {
	case "yield":
		m.seen = max(m.seen, msg.epoch)
		msg.promised = m.seen
	case "read":
		msg.read, msg.promised = w.lun.clone(), m.seen
	case "map":
		if !w.lacks(judges) && w.lun.volumes[msg.volume] != (claim{node: m.name}) {
			return "not this node's"
		}
		m.maps[msg.volume] = true
		w.mapped++
	case "unmap":
		delete(m.maps, msg.volume)
	case "register":
		if msg.boot != m.boot {
			return "another boot"
		}
		w.lun.keys[m.name] = msg.key
	case "preempt":
		if w.lun.keys[m.name] == 0 {
			return "no key"
		}
		w.preempt(msg.node, msg.key)
		if w.lun.keys[msg.node] != 0 && !w.lacks(fences) {
			return "the node has another key"
		}
	default:
		panic(msg.kind)
	}
	return ""
}

// preempt takes a key off and aborts what the target still has of the node.
func (w *world) preempt(node string, key int) {
	if w.lun.keys[node] == key && !w.lacks(fences) {
		delete(w.lun.keys, node)
	}
	if w.lun.keys[node] == 0 {
		w.writes = slices.DeleteFunc(w.writes, func(x *write) bool {
			if x.node == node {
				w.answer(x, "aborted")
			}
			return x.node == node
		})
	}
}

// notLeaving refuses to take a volume from a node that may map it.
const notLeaving = "not leaving"

// begin looks at the LUN and starts a change: the write goes to the target, and lands when it lands.
func (w *world) begin(m *machine, msg *message) {
	next, refused := w.lun.after(msg)
	switch {
	case !w.lacks(epochs) && (msg.epoch < m.seen || msg.epoch < w.lun.epoch || msg.kind != "takeover" && msg.epoch != w.lun.epoch):
		refused = "another epoch"
	case w.lun.keys[m.name] == 0:
		refused = "no key"
	case !w.lacks(sequences) && msg.seq != w.lun.seq:
		refused = "moved"
	}
	if refused != "" && (refused != notLeaving || !w.lacks(leaves)) {
		msg.failed, msg.done = refused, true
		return
	}
	m.running = msg
	w.writes = append(w.writes, &write{node: m.name, boot: m.boot, epoch: msg.epoch, base: w.lun.seq, next: next, of: msg})
}

// after returns what a change makes of the content, or why it cannot be made.
func (c content) after(msg *message) (next content, refused string) {
	next = c.clone()
	next.seq++
	was := next.volumes[msg.volume]
	switch msg.kind {
	case "takeover":
		next.epoch = msg.epoch
	case "hold":
		if was.node != "" {
			refused = "held"
		}
		next.volumes[msg.volume] = claim{node: msg.node}
	case "leave":
		if was.node != msg.node {
			refused = "not held"
		}
		next.volumes[msg.volume] = claim{node: msg.node, leaving: true}
	case "release":
		if was != (claim{node: msg.node, leaving: true}) {
			refused = notLeaving
		}
		delete(next.volumes, msg.volume)
	}
	return next, refused
}

// land lets the target do a write. Here the protocol is judged.
func (w *world) land(i int) {
	x := w.writes[i]
	w.writes = slices.Delete(w.writes, i, i+1)
	if w.lun.keys[x.node] == 0 {
		w.answer(x, "fenced")
		return
	}
	if x.base != w.lun.seq {
		w.fail("lost update: %s replaced sequence %d, and had read %d", x.node, w.lun.seq, x.base)
	}
	if x.epoch < w.lun.epoch {
		w.fail("a write of epoch %d landed in epoch %d", x.epoch, w.lun.epoch)
	}
	w.lun.content = x.next
	w.tell("landed from %s: %s %s %s: %+v", x.node, x.of.kind, x.of.volume, x.of.node, x.next)
	w.changes++
	w.answer(x, "")
}

// answer ends the command of a write, if its agent still runs.
func (w *world) answer(x *write, failed string) {
	m := w.machines[x.node]
	if m.running == x.of {
		m.running = nil
		x.of.failed, x.of.done = failed, true
	}
}

// active counts the nodes that could write to a volume.
func (w *world) active() {
	for _, v := range volumes {
		var on []string
		for _, n := range w.names {
			if m := w.machines[n]; m.on && m.maps[v] && (w.lun.keys[n] != 0 || w.lacks(fences)) {
				on = append(on, n)
			}
		}
		if len(on) > 1 {
			w.fail("volume %s is active on %v", v, on)
		}
	}
}
