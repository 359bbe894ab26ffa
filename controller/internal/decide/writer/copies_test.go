package writer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The rules of decision 0044 that a world with copies can be without.
const (
	sole  = "a copy is made of a volume that nobody has"
	lends = "nobody gets a volume that is being copied"
	ours  = "a node fills a copy if the LUN says that it is its own, and not whole"
	// That nobody holds it either when it becomes whole keeps the proof short. The other rules guard each other there: the model finds nothing without it.
	shows = "a copy is whole once the LUN says that all of it is there"
)

// In a world with copies the second volume is a copy of the first one, if it is there.
const (
	originName = "a"
	copyName   = "b"
	blocks     = 4
)

// copies is what lies on the LUN, beside metadata, in a world with copies.
type copies struct {
	rand *rand.Rand
	// origin and copy are what lies there, and wanted is what the origin had when the copy was made.
	origin, copy, wanted [blocks]int
	// sent are the blocks on their way to the LUN.
	sent []block
	// writes of pods, ids of copies, and what happened.
	writes, ids              int
	made, whole, taken, held int
}

// block is a write of a node that fills a copy.
type block struct {
	node      string
	id        int
	at, value int
}

// fill is what an agent does in the background. It ends with the agent; what it sent may land later.
type fill struct {
	incarnation, id, at int
}

func (c *copies) drop(node string) {
	if c != nil {
		c.sent = slices.DeleteFunc(c.sent, func(b block) bool { return b.node == node })
	}
}

func (c *copies) rename(node, to string) {
	if c == nil {
		return
	}
	for i := range c.sent {
		if c.sent[i].node == node {
			c.sent[i].node = to
		}
	}
}

func (c *copies) under(node string) bool {
	return slices.ContainsFunc(c.sent, func(b block) bool { return b.node == node })
}

// fills reports whether a node has devices of a copy.
func (w *world) fills(m *machine) bool {
	return w.copies != nil && (m.fill != nil || w.copies.under(m.name))
}

// strays reports whether a node that a fence kept out could write to the origin, or to the copy, were nobody kept out any more.
func (w *world) strays() bool {
	if w.copies == nil {
		return false
	}
	for m := range w.all() {
		if m.on && (m.maps[originName] && w.lun.volumes[originName].node != m.name || w.fills(m) && w.lun.volumes[copyName].node != m.name) {
			return true
		}
	}
	return false
}

// refusesCopy is what an agent says of a change by the rules of copies; empty when they let it pass.
func (w *world) refusesCopy(msg *message, next content) string {
	if w.copies == nil {
		return ""
	}
	b := w.lun.volumes[copyName]
	switch msg.kind {
	case "copy":
		return w.refusesMaking(b, next)
	case "hold":
		return w.refusesHolding(msg.volume, b)
	case "copied":
		if !b.copying() || b.node != msg.node || b.leaving {
			return "not copied there"
		}
		b.copied = true
		next.volumes[copyName] = b
	case "ready":
		if !b.copying() || b.node != "" || !b.copied && !w.lacks(shows) {
			return "not whole, or held"
		}
		b.whole = true
		next.volumes[copyName] = b
	}
	return ""
}

// copying reports whether a volume is a copy that is not whole.
func (c claim) copying() bool { return c.id != 0 && !c.whole }

func (w *world) refusesMaking(b claim, next content) string {
	if b.id != 0 || w.lun.volumes[originName].node != "" && !w.lacks(sole) {
		return "there, or the origin is held"
	}
	w.copies.ids++
	next.volumes[copyName] = claim{id: w.copies.ids}
	return ""
}

func (w *world) refusesHolding(volume string, b claim) string {
	switch {
	case volume == originName && b.copying() && !w.lacks(lends):
		return "it is being copied"
	case volume == copyName && !b.copying():
		return "a snapshot, or gone"
	}
	return ""
}

// copyLanded looks at what a change did that has to do with copies.
func (w *world) copyLanded(x *write) {
	if w.copies == nil {
		return
	}
	c := w.copies
	switch {
	case x.of.kind == "copy":
		c.made++
		c.wanted, c.copy = c.origin, [blocks]int{-1, -1, -1, -1}
	case x.of.kind == "ready":
		c.whole++
	case x.of.kind == "release" && x.of.volume == copyName && x.of.boot != 0:
		c.taken++
	case x.of.kind == "hold" && x.of.volume == originName && w.lun.volumes[copyName].whole:
		c.held++
	}
}

// fillOn has an agent fill the copy, and says whether it has.
func (w *world) fillOn(m *machine) string {
	b := w.lun.volumes[copyName]
	if m.fill != nil && (m.fill.incarnation != m.incarnation || m.fill.id != b.id) {
		m.fill = nil
	}
	mine := b.copying() && b.node == m.name && !b.leaving || w.lacks(ours)
	switch {
	case m.fill == nil && !mine:
		return "not this node's"
	case !w.lun.confirms(m.name):
		return noKey
	case m.fill == nil && w.copies.under(m.name):
		return inUse
	case m.fill == nil:
		m.fill = &fill{incarnation: m.incarnation, id: b.id}
	}
	if m.fill.at < blocks || w.copies.under(m.name) {
		return "not done"
	}
	return ""
}

// endsFill ends the copying on a node, and reports whether nothing of it is under way any more.
func (w *world) endsFill(m *machine) bool {
	if w.copies == nil {
		return true
	}
	m.fill = nil
	return !w.copies.under(m.name)
}

// copyOn lets pods write, and copies go on. Here copies are judged.
func (w *world) copyOn() {
	c := w.copies
	if c == nil {
		return
	}
	b := w.lun.volumes[copyName]
	for m := range w.all() {
		if !m.on {
			continue
		}
		if m.maps[originName] && w.lun.takes(m.name) {
			if b.copying() {
				w.fail("the origin is active on %s while it is copied", m.name)
			}
			c.writes++
			c.origin[c.rand.IntN(blocks)] = c.writes
		}
		w.fillMore(m)
	}
	for i := 0; i < len(c.sent); i++ {
		if x := c.sent[i]; c.rand.IntN(8) == 0 {
			c.sent = slices.Delete(c.sent, i, i+1)
			w.landBlock(x)
			break
		}
	}
	if b.whole && c.copy != c.wanted {
		w.fail("the copy has %v, and its origin had %v when it was made", c.copy, c.wanted)
	}
}

// copyTrouble has another machine take the name of one that fills a copy: the earlier one goes on.
func (w *world) copyTrouble() {
	if w.copies == nil || !w.mood.twins || w.mood.trouble == 0 {
		return
	}
	for _, n := range w.names {
		if m := w.machines[n]; m.fill != nil && w.copies.rand.IntN(60) == 0 {
			w.usurp(m)
		}
	}
}

// fillMore sends the next block of a copy. One that the target refused ends the copying.
func (w *world) fillMore(m *machine) {
	f, c := m.fill, w.copies
	if f == nil || !m.agent || f.incarnation != m.incarnation || c.under(m.name) || m.blind || f.at >= blocks || c.rand.IntN(6) != 0 {
		return
	}
	if !w.lun.takes(m.name) {
		m.fill = nil
		return
	}
	c.sent = append(c.sent, block{node: m.name, id: f.id, at: f.at, value: c.origin[f.at]})
	f.at++
}

// landBlock lets the target write a block, if it takes it.
func (w *world) landBlock(x block) {
	if !w.lun.takes(x.node) {
		for m := range w.all() {
			if m.name == x.node {
				m.fill = nil
			}
		}
		return
	}
	switch b := w.lun.volumes[copyName]; {
	case b.id == x.id:
		w.copies.copy[x.at] = x.value
	case x.id != 0:
		w.fail("%s wrote a block of a copy that was removed: another volume may be there", x.node)
	}
}

// chooseCopy makes a goal one that has to do with the copy.
func (w *world) chooseCopy(g *goal) {
	if w.copies == nil || g.volume != copyName {
		return
	}
	*g = goal{kind: "copy", volume: copyName}
	if w.lun.volumes[copyName].whole && w.copies.rand.IntN(3) == 0 {
		g.kind = "remove"
	} else if w.copies.rand.IntN(8) == 0 {
		g.kind = "remove"
	}
}

// pursueCopy goes on with a copy, and reports whether there was one to go on with. Who wants the origin brings its copy to its end first.
func (w *world) pursueCopy(p *process, change func(kind, node string, boot int)) bool {
	if w.copies == nil {
		return false
	}
	g, b := &p.goal, p.claims[copyName]
	if b.copying() && g.volume == originName && g.kind != "detach" && !w.lacks(lends) {
		*g = goal{kind: "copy", volume: copyName}
	}
	switch {
	case g.kind == "remove" && g.volume == copyName && b.node != "" && !b.leaving:
		change("leave", b.node, 0)
	case g.kind != "copy" || b.leaving:
		return false
	case b.node == "":
		w.pursueUnheld(p, change)
	default:
		w.pursueHeld(p, change)
	}
	return true
}

// pursueUnheld goes on with a copy that no node holds.
func (w *world) pursueUnheld(p *process, change func(kind, node string, boot int)) {
	a, b := p.claims[originName], p.claims[copyName]
	switch {
	case b.id == 0 && a.node != "" && !w.lacks(sole), b.whole:
		w.reached(p, true)
	case b.id == 0:
		change("copy", "", 0)
	case b.copied || w.lacks(shows) && w.copies.rand.IntN(2) == 0:
		change("ready", "", 0)
	default:
		change("hold", w.api.record.Writer, 0)
	}
}

// pursueHeld goes on with a copy that a node holds.
func (w *world) pursueHeld(p *process, change func(kind, node string, boot int)) {
	g, b := &p.goal, p.claims[copyName]
	switch {
	case b.copied:
		change("leave", b.node, 0)
	case g.filled == b.id:
		g.filled = 0
		change("copied", b.node, 0)
	case !p.facts.Up[b.node]:
		change("leave", b.node, 0)
	default:
		w.ask(p, message{to: b.node, kind: "fill"})
	}
}

// learnFill takes an answer about a copy. One that is not done yet is left to others for a while.
func (w *world) learnFill(p *process, c *message) {
	if c.failed == "" {
		p.goal.filled = p.claims[copyName].id
		return
	}
	p.goal = goal{}
	p.done++
}

// runCopies runs one schedule of a world with copies.
func runCopies(seed uint64, without string) (*world, string) {
	w := newWorld(seed, 3, without)
	w.copies = &copies{rand: rand.New(rand.NewPCG(seed, 4))}
	return w.run()
}

// TestProtocol_copies: the schedules of TestProtocol in a world in which one volume is a copy of the other one, and nodes that die, are fenced, or are late, fill it. The origin is
// active nowhere while it is copied, a copy that is whole has what its origin had when it was made, and no block of a copy that was removed lands.
func TestProtocol_copies(t *testing.T) {
	var made, whole, taken, held int
	first, count := seedsOf(t, 3000)
	for seed := first; seed < first+uint64(count); seed++ {
		w, broken := runCopies(seed, "")
		if broken != "" {
			t.Fatalf("seed %d: %s", seed, broken)
		}
		made, whole, taken, held = made+w.copies.made, whole+w.copies.whole, taken+w.copies.taken, held+w.copies.held
	}
	says := fmt.Sprintf("%d copies made, %d whole, %d taken from fenced nodes, the origin given to a node %d times beside a whole copy", made, whole, taken, held)
	if t.Log(says); count >= 1000 && (made < count/2 || whole < count/4 || taken < count/500 || held < count/20) {
		t.Errorf("too little happened to prove anything: %s", says)
	}
}

// TestProtocol_copiesNeedEveryRule: without any one of the rules the same schedules break what the others hold.
func TestProtocol_copiesNeedEveryRule(t *testing.T) {
	if raceDetector {
		t.Skip("it takes minutes with the race detector, which has nothing to find here")
	}
	for _, c := range []struct {
		without, says string
		first         uint64
	}{
		{sole, "is active", 1},
		{lends, "is active", 1},
		{ours, "the copy has", 1},
		{shows, "the copy has", 1},
	} {
		t.Run(c.without, func(t *testing.T) {
			for seed := range uint64(40_000) {
				if _, broken := runCopies(c.first+seed, c.without); strings.Contains(broken, c.says) {
					t.Logf("seed %d: %s", c.first+seed, broken)
					return
				}
			}
			t.Error("nothing went wrong without it")
		})
	}
}
