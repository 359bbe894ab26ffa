package randomtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// event is one thing that happens. Its seed decides about the rest of it, so that it stays the same when others are left out.
type event struct {
	name string
	seed uint64
}

// String is how an event is written into a test.
func (e event) String() string { return fmt.Sprintf("{%q, %d}", e.name, e.seed) }

// kind is a kind of events. do does nothing where the world has nothing that it could happen to.
type kind struct {
	name   string
	weight int
	do     func(w *world, r *rand.Rand)
}

// errFault is what a report fails with.
var errFault = errors.New("input/output error")

// kinds are all kinds of events.
var kinds = []kind{
	{"time passes", 6, func(*world, *rand.Rand) {}},
	// Disks.
	{"disk added", 2, func(w *world, r *rand.Rand) {
		if h, _ := pick(r, w.hosts); len(h.Disks()) < 7 {
			w.addDisk(h, int64(5+r.IntN(3)*5)*gib)
		}
	}},
	{"disk vanishes", 8, onDisk((*host).plugged, func(_ *world, h *host, d string, _ *rand.Rand) { h.Unplug(d) })},
	{"disk returns", 12, onDisk((*host).unplugged, func(_ *world, h *host, d string, _ *rand.Rand) { h.Plug(d) })},
	{"disks swap slots", 3, onDisk(anyDisk, (*world).swap)},
	{"disk moves", 3, onDisk(anyDisk, (*world).move)},
	{"group moves", 3, (*world).moveGroup},
	{"group returns", 4, func(w *world, r *rand.Rand) {
		if a, ok := pick(r, w.away()); ok {
			w.bringBack(a)
		}
	}},
	{"disk unreadable", 2, onDisk(anyDisk, func(_ *world, h *host, d string, _ *rand.Rand) { h.Corrupt(d, "size") })},
	{"disk readable", 3, onDisk(anyDisk, func(_ *world, h *host, d string, _ *rand.Rand) { h.Corrupt(d, "") })},
	{"foreign data", 4, (*world).write},
	{"foreign group", 1, (*world).foreignGroup},
	{"disk used", 2, (*world).use},
	{"disk given up", 3, (*world).giveUp},
	{"disk retired", 3, (*world).retire},
	// Reports.
	{"look fails", 2, onHost(func(_ *world, h *host, _ *rand.Rand) { h.Break(errFault) })},
	{"report fails", 2, onHost(func(_ *world, h *host, _ *rand.Rand) { h.BreakReport(errFault) })},
	{"report of a group fails", 3, onHost(func(_ *world, h *host, r *rand.Rand) {
		if g, ok := pick(r, h.Groups()); ok {
			h.BreakGroup(g.Name, errFault)
		}
	})},
	{"reports work", 6, onHost(func(_ *world, h *host, _ *rand.Rand) { h.healReports() })},
	// Agents.
	{"agent dies", 3, onHost(func(_ *world, h *host, _ *rand.Rand) { h.Kill() })},
	{"agent starts", 6, onHost(func(w *world, h *host, _ *rand.Rand) { w.startAgent(h) })},
	{"agent dies before a step", 4, onHost(func(_ *world, h *host, r *rand.Rand) { h.CrashBefore(1 + r.IntN(4)) })},
	{"agent dies after a step", 4, onHost(func(_ *world, h *host, r *rand.Rand) { h.CrashAfter(1 + r.IntN(4)) })},
	{"step fails", 3, onHost(func(_ *world, h *host, r *rand.Rand) { h.FailAt(1+r.IntN(3), errFault) })},
	{"disks hang", 2, onHost(func(_ *world, h *host, _ *rand.Rand) { h.Pause() })},
	{"disks go on", 4, onHost(func(_ *world, h *host, _ *rand.Rand) { h.Resume() })},
	{"node reboots", 2, onHost((*world).reboot)},
	{"pod goes", 1, onHost(func(w *world, h *host, _ *rand.Rand) { w.removePod(h) })},
	{"node leaves", 2, onHost((*world).leave)},
	{"node declared lost", 3, (*world).declare},
	{"node returns", 4, onHost(func(w *world, h *host, _ *rand.Rand) { w.comeBack(h) })},
	// Volumes.
	{"claim", 14, (*world).claim},
	{"claim deleted", 6, onClaim(func(_ *world, c *claim, _ *rand.Rand) { c.deleting = !c.open })},
	{"claim grows", 4, onClaim(func(_ *world, c *claim, r *rand.Rand) { c.wants = c.bytes + int64(1+r.IntN(2))*gib })},
	{"claim sent elsewhere", 4, func(w *world, r *rand.Rand) {
		// A person takes the node off a claim that has no volume yet.
		if c, ok := pick(r, w.claimsThat(func(c *claim) bool { return c.handle == "" && !c.deleting && c.from == "" })); ok {
			h, _ := pick(r, w.hosts)
			c.node = h.name
		}
	}},
	{"snapshot", 5, (*world).snap},
	{"snapshot deleted", 3, (*world).unsnap},
	{"copy", 5, (*world).copy},
	{"provisioner dies", 2, onClaim(func(_ *world, c *claim, _ *rand.Rand) { c.forget = true })},
	{"pod starts", 4, onClaim(func(w *world, c *claim, _ *rand.Rand) { w.open(c) })},
	{"pod ends", 5, onClaim(func(w *world, c *claim, _ *rand.Rand) { w.close(c) })},
	// Specs.
	{"cluster made", 4, (*world).makeCluster},
	{"cluster deleted", 1, onCluster(func(w *world, c *v1alpha1.Cluster, _ *rand.Rand) { w.remove(c) })},
	{"hosts change", 4, onCluster((*world).changeHosts)},
	{"devices change", 2, onCluster((*world).changeDevices)},
	{"pool grows", 2, onCluster((*world).growPool)},
	{"cluster maintenance", 3, onCluster((*world).maintain)},
	{"member maintenance", 2, (*world).maintainMember},
	{"node maintenance", 2, onHost((*world).maintainNode)},
	{"approval mode", 1, onCluster((*world).changeApproval)},
	{"approve", 5, onCluster((*world).approve)},
	{"wipe wanted", 2, onCluster((*world).consent)},
	// The controller.
	{"controller restarts", 2, func(w *world, _ *rand.Rand) { w.restart() }},
	{"two controllers", 2, (*world).overlap},
	{"cache lags", 2, func(w *world, _ *rand.Rand) { w.ctl.lagging = true }},
	{"cache catches up", 4, func(w *world, _ *rand.Rand) { w.ctl.lagging = false }},
}

// restores are kinds of events after which not all is well again by itself: what a person has to do then is not modelled.
var restores = []kind{
	{"backup", 6, (*world).backUp},
	{"restore", 5, (*world).restore},
}

// pauses are how long things go on after an event, and how likely. What is calm is looked at more closely.
var pauses = []time.Duration{0, 0, 0, 100 * time.Millisecond, 3 * time.Second, calm}

// calm is long enough for every fault to have been noticed.
const calm = 40 * time.Second

// generate returns the events of a seed, of some kinds only if any are named.
func generate(seed uint64, n int, only ...string) []event {
	if len(only) == 0 {
		return generateFrom(kinds, seed, n)
	}
	return generateFrom(slices.DeleteFunc(slices.Concat(kinds, restores), func(k kind) bool { return !slices.Contains(only, k.name) }), seed, n)
}

func generateFrom(chosen []kind, seed uint64, n int) []event {
	r := rand.New(rand.NewPCG(seed, 0))
	sum := 0
	for _, k := range chosen {
		sum += k.weight
	}
	var out []event
	for range n {
		at := r.IntN(sum)
		for _, k := range chosen {
			if at -= k.weight; at < 0 {
				out = append(out, event{k.name, r.Uint64()})
				break
			}
		}
	}
	return out
}

// happen lets an event happen, and what it causes for a while. It returns how long that was.
func (w *world) happen(e event) time.Duration {
	r := rand.New(rand.NewPCG(e.seed, 1))
	for _, k := range slices.Concat(kinds, restores) {
		if k.name == e.name {
			k.do(w, r)
		}
	}
	for _, h := range w.hosts {
		h.running = h.Alive()
	}
	d := pauses[r.IntN(len(pauses))]
	for range r.IntN(4) {
		w.ctl.reconcile(w.t.Context(), r)
	}
	if d > 0 {
		w.run(d, r)
	}
	return d
}

func anyDisk(*host, string) bool { return true }

func (h *host) plugged(d string) bool   { return h.Plugged(d) }
func (h *host) unplugged(d string) bool { return !h.Plugged(d) }

// blank reports whether a disk is nobody's.
func (w *world) blank(h *host, d string) bool {
	_, taken := w.foreign[spot{h.name, d}]
	return !taken && h.IsEmpty(d) && h.Plugged(d)
}

func onDisk(fits func(*host, string) bool, do func(*world, *host, string, *rand.Rand)) func(*world, *rand.Rand) {
	return func(w *world, r *rand.Rand) {
		if s, ok := pick(r, w.spots(fits)); ok {
			do(w, w.hostOf(s.host), s.disk, r)
		}
	}
}

func onHost(do func(*world, *host, *rand.Rand)) func(*world, *rand.Rand) {
	return func(w *world, r *rand.Rand) {
		h, _ := pick(r, w.hosts)
		do(w, h, r)
	}
}

func onClaim(do func(*world, *claim, *rand.Rand)) func(*world, *rand.Rand) {
	return func(w *world, r *rand.Rand) {
		if c, ok := pick(r, w.claims); ok {
			do(w, c, r)
		}
	}
}

func onCluster(do func(*world, *v1alpha1.Cluster, *rand.Rand)) func(*world, *rand.Rand) {
	return func(w *world, r *rand.Rand) {
		if c, ok := pick(r, w.clusters()); ok {
			do(w, &c, r)
		}
	}
}

func (w *world) swap(h *host, d string, r *rand.Rand) {
	other, _ := pick(r, h.Disks())
	if other == d {
		return
	}
	h.SwapSlots(d, other)
	a, b := spot{h.name, d}, spot{h.name, other}
	one, had := w.foreign[a]
	two, has := w.foreign[b]
	delete(w.foreign, a)
	delete(w.foreign, b)
	if had {
		w.foreign[b] = one
	}
	if has {
		w.foreign[a] = two
	}
}

func (w *world) move(h *host, d string, r *rand.Rand) {
	to, _ := pick(r, w.hosts)
	from := spot{h.name, d}
	if f := w.foreign[from]; to == h || f.busy {
		return
	}
	as := fmt.Sprintf("sd%c%c", 'a'+to.added/26, 'a'+to.added%26)
	if !h.MoveBlank(d, to.Host, as) {
		return
	}
	to.added++
	if f, ok := w.foreign[from]; ok {
		delete(w.foreign, from)
		w.foreign[spot{to.name, as}] = f
	}
}

// write puts somebody's data on a blank disk.
func (w *world) write(r *rand.Rand) {
	s, ok := pick(r, w.spots(w.blank))
	if !ok {
		return
	}
	h := w.hostOf(s.host)
	switch r.IntN(3) {
	case 0:
		h.Format(s.disk, "ext4", "", "")
	case 1:
		h.Partition(s.disk, "gpt", 1)
	default:
		h.Scribble(s.disk, fmt.Sprintf("data %d", r.Uint64()))
	}
	w.foreign[s] = foreign{written: h.Written(s.disk)}
}

func (w *world) foreignGroup(r *rand.Rand) {
	if s, ok := pick(r, w.spots(w.blank)); ok {
		w.named++
		h := w.hostOf(s.host)
		h.AddForeignGroup(fmt.Sprintf("vg%d", w.named), s.disk)
		w.foreign[s] = foreign{written: h.Written(s.disk)}
	}
}

// use lets a program use a blank disk, of which nothing on the disk tells.
func (w *world) use(r *rand.Rand) {
	s, ok := pick(r, w.spots(w.blank))
	if !ok {
		return
	}
	h := w.hostOf(s.host)
	switch r.IntN(3) {
	case 0:
		h.Mount(s.disk, "/mnt")
	case 1:
		h.Hold(s.disk, "dm-7")
	default:
		h.Seize(s.disk)
	}
	w.foreign[s] = foreign{written: h.Written(s.disk), busy: true}
}

// giveUp lets somebody give up a disk.
func (w *world) giveUp(r *rand.Rand) {
	if s, ok := pick(r, w.spots(w.given)); ok {
		w.clean(s)
	}
}

// given reports whether a disk is somebody else's, and can be given up.
func (w *world) given(h *host, d string) bool {
	_, taken := w.foreign[spot{h.name, d}]
	return taken && !h.Member(d)
}

func (w *world) clean(s spot) {
	h := w.hostOf(s.host)
	h.Unmount(s.disk)
	h.Unhold(s.disk)
	h.Free(s.disk)
	h.Clear(s.disk)
	delete(w.foreign, s)
}

func (w *world) startAgent(h *host) {
	if h.pod && h.node {
		h.Restart(w.t)
	}
}

func (w *world) reboot(h *host, _ *rand.Rand) {
	h.Kill()
	h.Resume()
	h.Reboot()
	for _, c := range w.claims {
		if v := w.ledger[c.handle]; v != nil && v.host == h.name {
			c.open = false
		}
	}
}

func (w *world) open(c *claim) {
	v := w.ledger[c.handle]
	if v == nil || v.released || c.open {
		return
	}
	if have, ok := w.record(v.host, c.handle); ok && have.Present {
		w.hostOf(v.host).OpenVolume(have.Group, have.Name)
		w.hostOf(v.host).UseVolume(have.Group, have.Name)
		c.open, v.used = true, true
	}
}

func (w *world) close(c *claim) {
	if v := w.ledger[c.handle]; v != nil && c.open {
		w.hostOf(v.host).CloseVolume(v.as.Group, v.as.Name)
		c.open = false
	}
}

func (w *world) claim(r *rand.Rand) {
	c, ok := pick(r, w.clusters())
	if !ok || len(w.claims) >= 24 {
		return
	}
	h, _ := pick(r, w.hosts)
	w.newClaim(c.Name, h.name, int64(1+r.IntN(3))*gib)
}

func (w *world) restart() {
	w.ctl.stop()
	w.ctl = w.start()
}
