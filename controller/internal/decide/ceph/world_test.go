package ceph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/osd"
)

// world is a Ceph cluster in small, and the Cluster that has it. What Ceph says of it is worked out from where each copy lies.
type world struct {
	t     *testing.T
	r     *rand.Rand
	hosts []Host

	records []MonitorRecord
	formed  bool
	names   int
	// mons of the map, and those of them that run.
	mons     map[string]bool
	workload map[string]bool

	disks []*worldDisk
	pool  Pool
	// groups are placement groups: for each the UUIDs on which a whole copy lies.
	groups [][]string
	served bool

	// auto: dead OSDs are given up without a person.
	auto bool

	log []string
	did map[Action]int
}

// worldDisk is a disk, with what Ceph knows of its OSD.
type worldDisk struct {
	Disk
	id    int
	known bool
	osd   OSD
	dead  bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 11)), mons: map[string]bool{}, workload: map[string]bool{}, did: map[Action]int{}, auto: seed%2 == 0}
	for i := range 3 + w.r.IntN(3) {
		w.addHost(fmt.Sprintf("n%d", i))
	}
	return w
}

func (w *world) addHost(name string) {
	w.hosts = append(w.hosts, Host{Name: name, Serving: true})
	for range 1 + w.r.IntN(2) {
		id := len(w.disks)
		w.disks = append(w.disks, &worldDisk{id: id, Disk: Disk{
			Host: name, Path: fmt.Sprintf("/dev/d%02d", id), UUID: fmt.Sprintf("uuid-%02d", id), Kind: osd.Empty, Deployed: No,
		}})
	}
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s, after\n%s", fmt.Sprintf(format, args...), joined(w.log[max(0, len(w.log)-40):]))
}

func joined(lines []string) string {
	out := ""
	for _, l := range lines {
		out += "  " + l + "\n"
	}
	return out
}

func (w *world) running() int {
	n := 0
	for _, runs := range w.mons {
		if runs {
			n++
		}
	}
	return n
}

func (w *world) hasQuorum() bool { return len(w.mons) > 0 && w.running() >= majority(len(w.mons)) }

func (w *world) find(uuid string) *worldDisk {
	for _, d := range w.disks {
		if d.UUID == uuid {
			return d
		}
	}
	return nil
}

// lying counts the copies of a group that can be read now, but for one OSD; whole counts those that exist at all.
func (w *world) lying(group []string, without string) (up, whole int) {
	for _, uuid := range group {
		d := w.find(uuid)
		if uuid == without || d.dead {
			continue
		}
		whole++
		if d.osd.Up {
			up++
		}
	}
	return up, whole
}

// facts is what Ceph says, as long as there is a quorum.
func (w *world) facts() Facts {
	f := Facts{}
	if !w.hasQuorum() {
		return f
	}
	f.Quorum, f.Map, f.Groups = &Quorum{MinRelease: 20}, &Map{RequireRelease: 20}, &Groups{Total: len(w.groups)}
	for name, runs := range w.mons {
		f.Quorum.Monitors = append(f.Quorum.Monitors, Monitor{Name: name, In: runs})
	}
	if w.pool.Name != "" {
		f.Map.Pools = []Pool{w.pool}
	}
	for _, g := range w.groups {
		up, _ := w.lying(g, "")
		switch {
		case up < w.pool.MinSize:
			f.Groups.Inactive++
		case up >= w.pool.Size && w.placed(g):
			f.Groups.Clean++
		}
	}
	for _, d := range w.disks {
		if !d.known {
			continue
		}
		o := d.osd
		o.UsedBytes, o.TotalBytes = 1<<20, 1<<40
		o.SafeToDestroy, o.OKToStop = Yes, Yes
		for _, g := range w.groups {
			if !slices.Contains(g, d.UUID) {
				continue
			}
			o.SafeToDestroy = No
			if up, _ := w.lying(g, d.UUID); up < w.pool.MinSize {
				o.OKToStop = No
			}
		}
		f.Map.OSDs = append(f.Map.OSDs, o)
		if o.Host != "" {
			f.Map.Hosts = append(f.Map.Hosts, o.Host)
		}
	}
	return f
}

// placed reports whether every copy of a group is on an OSD that data belong on.
func (w *world) placed(group []string) bool {
	return !slices.ContainsFunc(group, func(uuid string) bool { return !w.find(uuid).osd.In })
}

// recover is one round of Ceph's own work: each group gets at most one copy where it belongs, from one that can be read, and gives up at most one
// that belongs nowhere, once all others are there.
func (w *world) recover() {
	for i, g := range w.groups {
		up, _ := w.lying(g, "")
		good := slices.DeleteFunc(slices.Clone(g), func(uuid string) bool { d := w.find(uuid); return d.dead || !d.osd.In || !d.osd.Up })
		if len(good) < w.pool.Size && up > 0 {
			if to := w.target(good); to != "" && !slices.Contains(g, to) {
				w.groups[i] = append(slices.Clone(g), to)
			}
			continue
		}
		if len(good) >= w.pool.Size {
			w.groups[i] = good[:w.pool.Size]
		}
	}
}

// target is an OSD on a host that has none of the copies.
func (w *world) target(good []string) string {
	var taken, free []string
	for _, uuid := range good {
		taken = append(taken, w.find(uuid).Host)
	}
	for _, d := range w.disks {
		if d.known && d.osd.Up && d.osd.In && !slices.Contains(taken, d.Host) {
			free = append(free, d.UUID)
		}
	}
	if len(free) == 0 {
		return ""
	}
	return free[w.r.IntN(len(free))]
}

// hidden is what is left of facts when some cannot be read.
func hidden(f Facts, bits int) Facts {
	if bits&1 > 0 {
		f.Quorum = nil
	}
	if bits&2 > 0 {
		f.Map = nil
	}
	if bits&4 > 0 {
		f.Groups = nil
	}
	if bits&8 > 0 && f.Map != nil {
		m := *f.Map
		m.OSDs = slices.Clone(m.OSDs)
		for i := range m.OSDs {
			m.OSDs[i].SafeToDestroy, m.OSDs[i].OKToStop = Unknown, Unknown
		}
		f.Map = &m
	}
	return f
}

func (w *world) monitors() Monitors {
	var names []string
	for name := range w.workload {
		names = append(names, name)
	}
	return Monitors{Records: w.records, Next: fmt.Sprintf("m%d", w.names), Formed: w.formed, Deployed: &names, Hosts: w.hosts}
}

func (w *world) osds() OSDs {
	out := OSDs{Hosts: w.hosts, AutoReplace: w.auto}
	for _, d := range w.disks {
		shown := d.Disk
		if d.dead || d.Missing {
			shown.Kind = osd.Unknown
		}
		out.Disks = append(out.Disks, shown)
	}
	for _, h := range w.hosts {
		out.Tools = append(out.Tools, h.Name)
	}
	return out
}

// plans are all plans on some facts.
func (w *world) plans(f Facts) []Plan {
	return []Plan{
		PlanMonitors(w.monitors(), f), PlanOSDs(w.osds(), f), PlanPools(Pools{Names: []string{"data"}, Replicas: 2 + len(w.hosts)%2, Served: w.served}, f),
		PlanFlags(Flags{Hosts: w.hosts}, f),
	}
}

// TestWorld plays random worlds: hosts and disks come, leave and die, monitors too, steps are cut off, and facts are missing. Our own steps never
// take the last good copies, never stop what serves, and never leave the monitors without a quorum.
func TestWorld(t *testing.T) {
	did := map[Action]int{}
	for seed := range uint64(100) {
		w := newWorld(t, seed)
		for range 250 {
			w.happen()
			w.recover()
			f := w.facts()
			w.formed = w.formed || f.Quorum != nil
			w.served = w.served || w.pool.Name != ""
			w.hides(f)
			for _, s := range Together(w.plans(hidden(f, w.r.IntN(40)))...).Steps {
				// A person needs a while.
				if s.Loses == "" || w.r.IntN(8) == 0 {
					w.take(s)
				}
			}
		}
		for a, n := range w.did {
			did[a] += n
		}
	}
	for _, a := range []Action{StartMonitor, RemoveMonitor, RegisterOSD, PrepareOSD, StartOSD, StopOSD, OutOSD, InOSD, PurgeOSD, ZapOSD, ReplaceOSD, KeepOSD, CreatePool, SetSize, SetMinSize} {
		if did[a] == 0 {
			t.Errorf("no world saw %s: %v", a, did)
		}
	}
	t.Logf("steps: %v", did)
}

// hides wants no step to come of a fact that is hidden.
func (w *world) hides(f Facts) {
	w.t.Helper()
	all := steps(w.plans(f))
	bits := 1 + w.r.IntN(15)
	for _, s := range steps(w.plans(hidden(f, bits))) {
		if why := w.blind(s, all, bits); why != "" {
			w.fail("%s is planned %s (%b); with all facts: %v", s, why, bits, all)
		}
	}
}

// blind says which fact a step that was planned without some would have needed; empty if it is none.
func (w *world) blind(s Step, all []Step, bits int) string {
	monitor, final := s.Do == StartMonitor || s.Do == RemoveMonitor, s.Do == StopOSD || s.Do == PurgeOSD
	switch {
	case bits&1 > 0 && s.Do != StartMonitor:
		return "without the word of the monitors"
	case bits&2 > 0 && !monitor:
		return "without their map"
	case final && bits&12 > 0 && w.ran(s.UUID):
		return "without knowing whether that is safe"
	case final || s.Do == ZapOSD:
		return "" // Which one of those that leave ends first depends on what is known of the others.
	case !slices.ContainsFunc(all, s.like):
		return "because something is not known"
	}
	return ""
}

// like reports whether two steps do the same to the same.
func (s Step) like(o Step) bool {
	return o.Do == s.Do && o.Name == s.Name && o.UUID == s.UUID && o.Host == s.Host
}

// ran reports whether an OSD of the map ever ran.
func (w *world) ran(uuid string) bool { d := w.find(uuid); return d.known && !d.osd.New }

func steps(plans []Plan) []Step {
	var out []Step
	for _, p := range plans {
		out = append(out, p.Steps...)
	}
	return out
}
