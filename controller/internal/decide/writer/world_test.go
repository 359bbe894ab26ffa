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
	rereads   = "a fence counts if no key on the LUN but those of members that are not fenced may write"
	opens     = "a fence counts if no command to register that key may be under way"
	asksOnce  = "a node has answered to every request to register when no command for it is taken to be under way"
	sandwich  = "the keys on the LUN count if the Members say the same before they are read and after"
	drains    = "a node says that it has registered once no earlier command to register of it is under way"
	remaps    = "a node with volumes mapped registers no key but the one that it has, unless nobody has reserved the LUN"
	owns      = "a node with volumes mapped gets its key back if the LUN says that they are its own"
	reserves  = "nobody reserves before those have their keys who have volumes of their own mapped"
	hears     = "only what the agent itself says, that it did it or that nothing is under way, answers a request to register"
	itself    = "what a node says counts, and a volume is mapped there, once no key of an earlier boot of it is on the LUN"
	known     = "what a node says counts once every key on the LUN is a member's"
	confirms  = "a node maps a volume only while its own key is on the LUN"
	boots     = "a volume that was released by a fence is removed once its node reports another boot"
	anew      = "a process writes the record anew after a write of it that had no answer, before it sends anything"
	shuns     = "another node is the writer when one could not read the LUN, or was refused"
	adopts    = "by approval a node replaces a key of its own that is not on record"
	unmaps    = "a volume that was released by a fence is removed once its node says that it has no device of it"
)

// lun is what the target has: the content that a write replaces as a whole, and the keys.
type lun struct {
	content
	keys map[string]int // key of each registered node
	// reserved is true while only those who are registered may write: from when somebody was told to reserve it until the target loses all of it.
	reserved bool
}

// takes reports whether the target takes a write of a node.
func (l lun) takes(node string) bool { return !l.reserved || l.keys[node] != 0 }

// content is the metadata of the group. A node reads it, and writes it as a whole: nothing but the protocol keeps two nodes from
// replacing each other's.
type content struct {
	epoch, seq uint64
	volumes    map[string]claim
}

// claim is the mark of a volume: the node that may have it active, and whether that is being taken from it. readers are the nodes with their boots that it
// was taken from by a fence: "n1/3 n2/1".
type claim struct {
	node    string
	leaving bool
	readers string
	// id is that of the copy, which is made anew at times; 0 for a volume that is none. copied is true once the LUN says that all of it is there, whole once it may be seen.
	id            int
	copied, whole bool
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

// grant is a key for a boot. asked is how many requests to register it had no answer: it is written before each is sent, and is back at none only when there was
// one, and its answer came.
type grant struct {
	key, boot, asked int
	// previous are keys of earlier boots that were on the LUN when this one was granted.
	previous []int
}

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
	// path is true when a path to the LUN came back, on which the key is not registered yet. blind is true while the agent runs, and no path is up.
	path, blind bool
	// fill is the copying that its agent does; nil when it does none.
	fill *fill
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
	// previous is another key to preempt. reserve says that the LUN is reserved after the key is registered, own are the volumes that it says are the node's, and
	// shuts are the nodes that it would shut out from volumes of their own.
	previous []int
	// old are the keys that a key which is registered replaces.
	old     []int
	reserve bool
	own     map[string]bool
	shuts   []string
	// done is set once the answer is on its way; failed says why the agent refused, refused that it began nothing. first is what a request is a repetition of.
	done    bool
	failed  string
	refused bool
	first   *message
	read    content
	// promised is the epoch that the node has promised.
	promised uint64
	// keys are the registrations as read; boots are those that nodes report, as the asker was told.
	keys  *reading
	boots map[string]int
}

// lateRecord is a write of the record that the API server has not seen yet.
type lateRecord struct {
	version int
	next    Record
}

// register is a command to register a key that waits in the kernel of a node.
type register struct {
	node      string
	boot, key int
	of        *message
}

// mood is how much goes wrong, how soon requests arrive and writes land, of a thousand, and how long a process waits for an answer. fences is true where
// most of what goes wrong has to do with fences, and all else goes fast.
type mood struct {
	trouble, mail, land, patience int
	// slow is how much later than others commands to register land.
	slow   int
	fences bool
	// twins is true where another machine may take a node's name.
	twins bool
	// strict is true where a node replaces no key of its own that it was not told of, a node that was booted may get no key for a while, and a backup may be older than
	// the first key of a node.
	strict bool
	// late is true where a write of the record may have no answer, and arrive later.
	late bool
}

// world is everything. broken is the first rule that did not hold.
type world struct {
	rand *rand.Rand
	// extra is for what only strict worlds have: all others stay as they are.
	extra *rand.Rand
	// lag is for writes of the record that arrive late.
	lag      *rand.Rand
	lun      lun
	api      api
	backup   *api
	machines map[string]*machine
	names    []string
	// without has the rules that this world does not keep.
	without string
	mood    mood
	mail    []*message
	writes  []*write
	// registers are under way.
	registers []*register
	// records are writes of the record that had no answer.
	late  []lateRecord
	procs []*process
	// twins are machines whose names others have now. No request reaches them, and what they had mapped and sent goes on.
	twins  []*machine
	keys   int
	broken string
	// changes that landed, attached volumes that were mapped, volumes that were released by a fence, and others: a test in which nothing happens proves nothing.
	changes, mapped, fences, removed, lost, torn int
	// freed counts volumes that were released from nodes that had lost the LUN, ended changes that ended with errors of which nobody knows what came of them.
	// open counts those that were released by a fence from nodes that answer.
	freed, ended, open int
	// adopted keys that were not on record were replaced by their own nodes, outlived ones of boots before were taken off, and unknown counts the volumes that were
	// released by the fence of a node of which no key was on record.
	adopted, outlived, unknown int
	// arrived counts the writes of the record that arrived late and were taken.
	arrived int
	// copies is nil in a world without them.
	copies *copies
}

func newWorld(seed uint64, nodes int, without string) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 1)), extra: rand.New(rand.NewPCG(seed, 2)), lag: rand.New(rand.NewPCG(seed, 3)), machines: map[string]*machine{}, without: without}
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
	if w.rand.IntN(2) == 0 {
		w.mood = mood{trouble: 10 + w.rand.IntN(20), mail: 300, land: 200, patience: 60, fences: true}
	}
	w.mood.slow = []int{1, 10, 100}[w.rand.IntN(3)]
	w.mood.twins = w.rand.IntN(4) == 0
	w.mood.strict = w.extra.IntN(3) == 0
	w.mood.late = w.lag.IntN(3) == 0
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
	if m.cut || w.waits(m, msg) {
		return
	}
	w.mail = slices.Delete(w.mail, i, i+1)
	switch {
	case msg.change() && msg.first != nil && msg.first.refused:
		// Nothing repeats a request that was answered: an agent that refused a change starts none by itself, and the next epoch counts on that.
		return
	case msg.change():
		w.begin(m, msg)
		return
	case msg.kind == "register" && (m.blind || w.rand.IntN(8) == 0):
		msg.failed, msg.done = "busy", true
		return
	case msg.kind == "register" && w.mayRegister(m, msg):
		w.registers = append(w.registers, &register{node: m.name, boot: m.boot, key: msg.key, of: msg})
		return
	}
	msg.failed = w.serve(m, msg)
	w.tell("%s: %s volume %s node %s key %d boot %d epoch %d: %q", m.name, msg.kind, msg.volume, msg.node, msg.key, msg.boot, msg.epoch, msg.failed)
	msg.done = true
}

// waits reports whether a request waits, for another one or for nothing. Late orders to map are what may have a volume active twice: they are late more
// often than others.
func (w *world) waits(m *machine, msg *message) bool {
	switch {
	case msg.kind == "map":
		return w.rand.IntN(4) != 0
	case msg.kind == "fill" && msg.first != nil:
		return w.copies.rand.IntN(40) != 0
	case msg.kind == "promise" || msg.change():
		return !w.lacks(waits) && (m.running != nil || w.writing(m))
	case msg.kind == "register":
		// It is refused at times, even while an earlier command is under way.
		return !w.lacks(drains) && w.registering(m) && w.rand.IntN(8) != 0
	}
	return false
}

func (m *message) change() bool {
	return m.kind == "takeover" || m.kind == "copy" || m.kind == "copied" || m.kind == "ready" || m.kind == "hold" || m.kind == "leave" || m.kind == "release" || m.kind == "remove" || m.kind == "forget"
}

// writing reports whether a command of an agent that ended still writes: LVM's lock file tells a later agent.
func (w *world) writing(m *machine) bool {
	return slices.ContainsFunc(w.writes, func(x *write) bool { return x.node == m.name && x.boot == m.boot })
}

// noLUN is what an agent says that has lost the LUN, noKey one whose key is not registered, and inUse one that cannot let go of a volume.
const (
	noLUN = "no path to the LUN is up"
	noKey = "no key"
	inUse = "the volume is open"
)

// serve does what needs no change of the group. To promise, and to remove a device, an agent needs no LUN.
func (w *world) serve(m *machine, msg *message) string {
	if m.blind && msg.kind != "promise" && msg.kind != "unmap" {
		return noLUN
	}
	switch msg.kind {
	case "promise":
		m.seen = max(m.seen, msg.epoch)
		msg.promised = m.seen
	case "read":
		msg.read, msg.promised = w.lun.clone(), m.seen
	case "map":
		return w.mapOn(m, msg.volume)
	case "unmap":
		return w.unmapOn(m, msg.volume)
	case "fill":
		return w.fillOn(m)
	case "register":
		return "another boot, or volumes are mapped"
	case "keys":
		msg.keys = &reading{lun: lun{keys: maps.Clone(w.lun.keys), reserved: w.lun.reserved}, before: msg.keys.before}
	case "preempt":
		if !w.lun.confirms(m.name) {
			return noKey
		}
		w.preempt(msg.key)
		for _, key := range msg.previous {
			w.preempt(key)
		}
	default:
		panic(msg.kind)
	}
	return ""
}

// mapOn makes the device of a volume.
func (w *world) mapOn(m *machine, volume string) string {
	now := w.lun.volumes[volume]
	switch {
	case !w.lacks(judges) && (now.node != m.name || now.leaving):
		return "not this node's"
	case !w.lacks(confirms) && !w.lun.confirms(m.name):
		return noKey
	}
	m.maps[volume] = true
	w.mapped++
	return ""
}

// unmapOn removes the device of a volume, unless it is open.
func (w *world) unmapOn(m *machine, volume string) string {
	if m.maps[volume] && (w.api.fenced[m.name] && w.rand.IntN(4) != 0 || w.rand.IntN(8) == 0) {
		return inUse
	}
	if volume == copyName && !w.endsFill(m) {
		return inUse
	}
	delete(m.maps, volume)
	return ""
}

// notLeaving refuses to take a volume from a node that may map it.
const notLeaving = "not leaving"

// begin looks at the LUN and starts a change: the write goes to the target, and lands when it lands.
func (w *world) begin(m *machine, msg *message) {
	next, refused := w.lun.after(msg)
	switch {
	case m.blind:
		refused = noLUN
	case !w.lacks(epochs) && (msg.epoch < m.seen || msg.epoch < w.lun.epoch || msg.kind != "takeover" && msg.epoch != w.lun.epoch):
		refused = "another epoch"
	case !w.lun.confirms(m.name):
		refused = noKey
	case !w.lacks(sequences) && msg.seq != w.lun.seq:
		refused = "moved"
	}
	if refused == "" {
		refused = w.refusesCopy(msg, next)
	}
	if refused != "" && (refused != notLeaving || !w.lacks(leaves)) {
		msg.failed, msg.done, msg.refused = refused, true, true
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
		was.node = msg.node
		next.volumes[msg.volume] = was
	case "leave":
		if was.node != msg.node {
			refused = "not held"
		}
		was.node, was.leaving = msg.node, true
		next.volumes[msg.volume] = was
	case "release":
		if was.node != msg.node || !was.leaving {
			refused = notLeaving
		}
		was.readers = was.with(msg.node, msg.boot)
		was.node, was.leaving = "", false
		next.volumes[msg.volume] = was
	case "forget":
		was.readers = was.lessReader(msg.node, msg.boot)
		next.volumes[msg.volume] = was
	case "remove":
		if was.node != "" || was.unbooted(msg.boots) {
			refused = "held, or read"
		}
		delete(next.volumes, msg.volume)
	}
	return next, refused
}

// land lets the target do a write. Here the protocol is judged.
func (w *world) land(i int) {
	x := w.writes[i]
	failed := ""
	if m := w.machines[x.node]; m != nil && m.blind {
		if w.rand.IntN(4) != 0 {
			// The kernel waits for a path.
			return
		}
		failed = ioError
	}
	w.writes = slices.Delete(w.writes, i, i+1)
	if failed != "" && w.rand.IntN(2) == 0 {
		// It never reached the target.
		w.answer(x, failed)
		return
	}
	if !w.lun.takes(x.node) {
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
	w.copyLanded(x)
	w.tell("landed from %s: %s %s %s: %+v", x.node, x.of.kind, x.of.volume, x.of.node, x.next)
	w.changes++
	w.count(x)
	w.answer(x, failed)
}

// count counts what a change that landed did.
func (w *world) count(x *write) {
	m := w.machines[x.of.node]
	switch {
	case x.of.kind == "release" && x.of.boot == 0:
		if m != nil && m.blind {
			w.freed++
		}
	case x.of.kind == "release":
		w.torn++
		if m.reach() {
			w.open++
		}
		if x.of.boot == unknownBoot {
			w.unknown++
		}
	case x.of.kind == "remove":
		w.removed++
		w.unread(x.of.volume)
	}
}

// ioError is what an agent says when its command ended with an error: the change was made, or was not. Nothing of it is under way any more.
const ioError = "I/O error"

// answer ends the command of a write, if its agent still runs.
func (w *world) answer(x *write, failed string) {
	if m := w.machines[x.node]; m != nil && m.running == x.of {
		m.running = nil
		x.of.failed, x.of.done = failed, true
	}
}

// active counts the nodes that could write to a volume.
func (w *world) active() {
	for _, v := range volumes {
		var on []string
		for m := range w.all() {
			if m.on && m.maps[v] && (w.lun.takes(m.name) || w.lacks(fences)) {
				on = append(on, m.name)
			}
		}
		if len(on) > 1 {
			w.fail("volume %s is active on %v", v, on)
		}
	}
}
