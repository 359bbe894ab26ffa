package writer

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// defaultSchedules is how many random schedules TestProtocol runs when nobody says; `make model` runs more. A failure names its seed.
var defaultSchedules = 10_000

// raceDetector is true in a run with it.
var raceDetector = false

var (
	schedules = flag.Int("schedules", 0, "random schedules of the writer protocol")
	trace     = flag.Bool("trace", false, "print what happens")
	firstSeed = flag.Uint64("seed", 1, "the first one")
)

// happen lets one random thing happen.
func (w *world) happen() {
	m := w.machines[w.names[w.rand.IntN(len(w.names))]]
	p := w.procs[w.rand.IntN(len(w.procs))]
	w.arrive()
	switch n := w.rand.IntN(1000); {
	case n < w.mood.trouble:
		w.trouble(m, p)
	case n < 100+w.mood.mail && len(w.mail) > 0:
		w.deliver(w.rand.IntN(len(w.mail)))
	case n < 500 && n > 500-w.mood.land && len(w.writes) > 0:
		w.land(w.rand.IntN(len(w.writes)))
	case n < 500 && n > 500-w.mood.land && len(w.registers) > 0 && w.rand.IntN(w.mood.slow) == 0:
		w.landRegister(w.rand.IntN(len(w.registers)))
	case n >= 500:
		w.step(p)
	}
	w.copyTrouble()
	w.copyOn()
	w.active()
}

// trouble is what goes wrong.
func (w *world) trouble(m *machine, p *process) {
	what := w.rand.IntN(20)
	if w.mood.fences {
		if what < 5 && what != 2 {
			what = 5 + w.rand.IntN(7)
		}
		m = w.holder(m)
	}
	w.tell("trouble %d with %s and %s", what, m.name, p.name)
	switch {
	case what == 0:
		p.forget(w)
	case what == 1:
		p.stalled = w.rand.IntN(60)
	case what < 5:
		w.troubleOf(m, what)
	case what < 7:
		w.taint(m)
	case what < 12:
		w.troubleOfRecords(m, what)
	case what < 15:
		w.blind(m)
	case what == 15:
		w.reconnect()
	default:
		w.heal(w.machines[w.names[w.rand.IntN(len(w.names))]])
	}
}

// reconnect has the networks of fenced nodes come back that were not booted.
func (w *world) reconnect() {
	for _, n := range w.names {
		if m := w.machines[n]; w.api.fenced[n] && m.on {
			m.cut, m.agent = false, true
		}
	}
}

// blind has a node lose its way to the LUN, or get it back; the writer more often than others, and in the middle of a change more often than not.
func (w *world) blind(m *machine) {
	if writer := w.machines[w.api.record.Writer]; writer != nil && w.rand.IntN(2) == 0 {
		m = writer
	}
	for _, x := range w.writes {
		if other := w.machines[x.node]; other != nil && w.rand.IntN(2) == 0 {
			m = other
		}
	}
	m.blind = !m.blind
}

// troubleOf has an agent die, a node die or come back, or its network.
func (w *world) troubleOf(m *machine, what int) {
	switch what {
	case 2:
		m.incarnation++
		m.agent, m.running = m.on, nil
	case 3:
		w.power(m, !m.on)
	case 4:
		m.cut = !m.cut
	}
}

// taint is a person's word that a node is off. A person may be wrong: the node may run, and only its network be cut. Without any node that writes nothing
// happens: mostly one at a time is away.
func (w *world) taint(m *machine) {
	if away := len(w.api.tainted) > 0 && !w.api.tainted[m.name]; w.mood.fences && (away || len(m.maps) == 0) && w.rand.IntN(8) != 0 {
		return
	}
	m.cut = m.cut || w.rand.IntN(2) == 0
	if !m.reach() {
		w.api.tainted[m.name] = true
	}
}

// troubleOfRecords has the API server, or the target, forget something; or a path come back.
func (w *world) troubleOfRecords(m *machine, what int) {
	switch what {
	case 7:
		if w.mood.twins && w.rand.IntN(2) == 0 {
			w.usurp(m)
		} else if w.backup == nil || w.rand.IntN(2) == 0 {
			saved := w.api.clone()
			w.backup = &saved
		}
	case 8:
		w.restore()
	case 9:
		// A person deletes the Lease.
		w.api.record = Record{}
		w.api.version++
	case 10:
		if w.rand.IntN(2) == 0 {
			w.lose()
		}
	case 11:
		m.path = true
	}
}

// heal has a node come back: one that a person said is off mostly by a boot, and at times by its network alone.
func (w *world) heal(m *machine) {
	m.blind = m.blind && w.rand.IntN(2) == 0
	switch {
	case !w.api.tainted[m.name] && m.on && m.agent, w.api.fenced[m.name] && m.on && m.agent && w.rand.IntN(2) == 0:
		m.cut = false
	case !w.api.tainted[m.name] || w.rand.IntN(4) == 0:
		m.cut = false
		w.power(m, true)
	case w.rand.IntN(4) == 0:
		m.cut = false
	}
}

// holder is most often a node that has a volume mapped, if there is one: fences have to do with those.
func (w *world) holder(m *machine) *machine {
	for _, n := range w.names {
		if other := w.machines[n]; len(other.maps) > 0 && w.rand.IntN(2) == 0 {
			return other
		}
	}
	return m
}

// power switches a node on or off. What it had sent may still land until it is on again: its new session with the target ends the old one.
func (w *world) power(m *machine, on bool) {
	m.on, m.agent, m.running = on, on, nil
	m.incarnation++
	if on {
		m.boot++
		m.maps, m.path, m.fill = map[string]bool{}, false, nil
		w.copies.drop(m.name)
		w.registers = slices.DeleteFunc(w.registers, func(r *register) bool { return r.node == m.name })
		w.writes = slices.DeleteFunc(w.writes, func(x *write) bool { return x.node == m.name })
	}
}

// restore puts an older state of the API server back. Its processes were ended before, and longer ago than any command may run. The word of
// a person, and what was written on Members, is older too: keys, boots and fences. The keys on the LUN are not.
func (w *world) restore() {
	if w.backup == nil {
		return
	}
	w.mail, w.late = nil, nil
	for len(w.writes) > 0 {
		w.land(0)
	}
	for len(w.registers) > 0 {
		w.landRegister(0)
	}
	w.tell("the API server is restored")
	version := w.api.version
	w.api = w.backup.clone()
	w.api.version = version + 1
	if w.mood.strict && w.extra.IntN(2) == 0 {
		w.forgetKey()
	}
	for _, p := range w.procs {
		p.forget(w)
	}
}

// forgetKey lets the API server have no key of a node, as in a backup that is older than its first one: most often of one that has volumes, and is off for good.
func (w *world) forgetKey() {
	n := w.names[w.extra.IntN(len(w.names))]
	for _, v := range volumes {
		if holder := w.lun.volumes[v].node; holder != "" && w.extra.IntN(4) != 0 {
			n = holder
			w.api.tainted[n] = true
			w.machines[n].cut = true
		}
	}
	w.tell("the backup is older than the first key of %s", n)
	delete(w.api.granted, n)
	delete(w.api.fenced, n)
}

// settle heals everything and lets the world run until both processes reached goals.
func (w *world) settle() bool {
	w.mood.late = false
	for _, m := range w.machines {
		m.cut = false
		if !m.on {
			w.power(m, true)
		}
	}
	for _, m := range w.twins {
		m.on = false
	}
	w.see()
	for _, p := range w.procs {
		p.stalled, p.done = 0, 0
	}
	for range 20_000 {
		w.arrive()
		w.bootKeyless()
		switch n := w.rand.IntN(4); {
		case n == 0 && len(w.mail) > 0:
			w.deliver(w.rand.IntN(len(w.mail)))
		case n == 1 && len(w.writes) > 0:
			w.land(w.rand.IntN(len(w.writes)))
		case n == 2 && len(w.registers) > 0:
			w.landRegister(w.rand.IntN(len(w.registers)))
		default:
			w.step(w.procs[w.rand.IntN(2)])
		}
		w.copyOn()
		w.active()
		if w.procs[0].done > 0 && w.procs[1].done > 0 {
			return true
		}
	}
	return false
}

// see has the LUN come back to all nodes; at times to all but one, which has its key and keeps nobody from work.
func (w *world) see() {
	stays := w.machines[w.names[w.rand.IntN(len(w.names))]]
	g := w.api.granted[stays.name]
	keyed := w.lun.reserved && g.key != 0 && g.boot == stays.boot && w.lun.keys[stays.name] == g.key && !w.api.fenced[stays.name]
	for _, m := range w.machines {
		m.blind = m.blind && m == stays && keyed && len(g.previous) == 0 && g.asked == 0
	}
}

// bootKeyless does what a person does with nodes that are fenced, and with those that have volumes mapped and lost their key.
func (w *world) bootKeyless() {
	for _, n := range w.names {
		m, g := w.machines[n], w.api.granted[n]
		shut := w.lun.keys[n] != g.key && (w.lun.reserved || !m.mapsOnly(w.lun.own(n)))
		if g.boot == m.boot && (w.api.fenced[n] || len(m.maps) > 0 && shut) {
			w.power(m, false)
			w.power(m, true)
		}
	}
}

// aftermath lets what was begun come to its end, most of all fences, while nothing goes wrong; then something does that a fence may not have counted with.
func (w *world) aftermath() {
	trouble := w.mood.trouble
	for range 3 {
		w.mood.trouble = 0
		for range 150 {
			w.happen()
		}
		m := w.holder(w.machines[w.names[w.rand.IntN(len(w.names))]])
		switch w.rand.IntN(7) {
		case 6:
			// A site comes back after a disaster.
			w.restore()
			w.lose()
			for _, m := range w.machines {
				m.cut = false
			}
		case 0:
			if w.mood.twins {
				w.usurp(m)
			}
			w.restore()
		case 1:
			w.lose()
		case 2:
			m.path = true
		case 3:
			// A network comes back, or goes away; a person takes that for the node.
			if m.cut = !m.cut; m.cut {
				w.api.tainted[m.name] = true
			}
		case 4:
			m.incarnation++
			m.running = nil
			m.path = true
		case 5:
			w.heal(m)
		}
	}
	w.mood.trouble = trouble
}

// run runs one schedule, and returns what did not hold.
func run(seed uint64, without string) (*world, string) {
	return newWorld(seed, 3, without).run()
}

func (w *world) run() (*world, string) {
	for range 400 {
		w.happen()
	}
	w.aftermath()
	settled := w.settle()
	switch {
	case w.broken != "":
		return w, w.broken
	case !settled:
		return w, fmt.Sprintf("the work does not go on: %+v", w.api.record)
	}
	return w, ""
}

// TestProtocol: two processes, three nodes, requests that are late, lost or come twice, writes that land late, agents, processes and nodes that
// die and come back, nodes whose agents answer and that have lost the LUN, networks that are cut, wrong taints, restored backups, refusals, and other machines that have a node's name. No update is lost, no write of an old epoch lands, no volume is active
// twice, and when the trouble ends, work goes on.
func TestProtocol(t *testing.T) {
	var changes, mapped, fenced, removed, lost, torn, freed, ended, open, adopted, outlived, unknown, arrived atomic.Int64
	var group sync.WaitGroup
	var failed atomic.Bool
	seeds := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for seed := range seeds {
				w, broken := run(seed, "")
				if broken != "" {
					failed.Store(true)
					t.Errorf("-seed %d -schedules 1: %s", seed, broken)
				}
				changes.Add(int64(w.changes))
				mapped.Add(int64(w.mapped))
				fenced.Add(int64(w.fences))
				removed.Add(int64(w.removed))
				lost.Add(int64(w.lost))
				torn.Add(int64(w.torn))
				freed.Add(int64(w.freed))
				ended.Add(int64(w.ended))
				open.Add(int64(w.open))
				adopted.Add(int64(w.adopted))
				outlived.Add(int64(w.outlived))
				unknown.Add(int64(w.unknown))
				arrived.Add(int64(w.arrived))
			}
		})
	}
	first, count := seedsOf(t, defaultSchedules)
	for i := range count {
		if failed.Load() {
			break
		}
		seeds <- first + uint64(i)
	}
	close(seeds)
	group.Wait()
	t.Logf("%d schedules: %d changes, %d volumes mapped, %d nodes fenced, %d volumes released by that, %d of them where they are open, %d from nodes without the LUN, %d removed, keys lost %d times, %d changes failed",
		count, changes.Load(), mapped.Load(), fenced.Load(), torn.Load(), open.Load(), freed.Load(), removed.Load(), lost.Load(), ended.Load())
	t.Logf("%d keys that were not on record replaced by their nodes, %d of earlier boots taken off, %d volumes released by a fence without a key, %d late records",
		adopted.Load(), outlived.Load(), unknown.Load(), arrived.Load())
	few := min(changes.Load()/5, mapped.Load(), fenced.Load()*50, torn.Load()*50, removed.Load()*2, lost.Load()*50, freed.Load()*30, ended.Load()*100, open.Load()*400,
		adopted.Load()*100, outlived.Load()*300, unknown.Load()*2500, arrived.Load()*20)
	if n := int64(count); n >= 1000 && few < n {
		t.Error("too little happened to prove anything")
	}
}

// TestProtocol_needsEveryRule: without any one of the rules the same schedules lose an update, or have a volume active twice. A model that does not
// find that would prove nothing.
func TestProtocol_needsEveryRule(t *testing.T) {
	if raceDetector {
		t.Skip("it takes minutes with the race detector, which has nothing to find here; make model runs it")
	}
	// first is a seed at which something went wrong when the model was written: others are tried when it does not any more.
	turn, of := turnOf(t)
	for i, c := range []struct {
		without string
		first   uint64
	}{
		{sequences + epochs, 224},
		{yields, 535},
		{waits, 3},
		{answers, 8691},
		{forgets, 12738},
		{leaves, 1918},
		{judges, 25096},
		{fences + rereads, 214},
		{rereads, 4436},
		{opens, 11645},
		{asksOnce + drains, 79038},
		{sandwich, 163843},
		{remaps, 29770},
		{owns, 25753},
		{reserves, 25},
		{hears, 11645},
		{itself, 511},
		{known, 36525},
		{confirms, 23178},
		{boots + unmaps, 642},
		{anew, 4333},
		{shuns, 32},
		{adopts, 3205},
	} {
		if i%of != turn {
			continue
		}
		t.Run(c.without, func(t *testing.T) {
			for seed := range uint64(40_000) {
				if _, broken := run(c.first+seed, c.without); broken != "" {
					t.Logf("seed %d: %s", c.first+seed, broken)
					return
				}
			}
			t.Error("nothing went wrong without it")
		})
	}
}
