package ceph

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/osd"
)

// happen is what happens by itself, or by people.
func (w *world) happen() {
	h := &w.hosts[w.r.IntN(len(w.hosts))]
	d := w.disks[w.r.IntN(len(w.disks))]
	switch w.r.IntN(40) {
	case 0:
		h.Serving = !h.Serving
	case 1:
		h.Leaving = w.staying() > 2 && (!w.auto || w.r.IntN(8) == 0)
		w.note("host %s leaves: %t", h.Name, h.Leaving)
	case 2:
		h.Leaving = false
		w.note("host %s stays", h.Name)
	case 3:
		if len(w.hosts) < 7 {
			w.addHost(fmt.Sprintf("n%d", len(w.hosts)))
		}
	case 4, 5:
		w.toggleMonitor()
	case 6, 7, 8, 9:
		w.happenTo(d)
	case 10:
		if w.r.IntN(4) == 0 && d.known && !w.lastCopy(d) {
			d.dead, d.osd.Up = true, false
			w.note("disk of osd.%d dies", d.id)
		}
	case 11:
		h.Maintenance = !h.Maintenance
	}
	w.happenToAway()
}

// happenToAway has disks that are away come back, or Ceph mark their OSDs out.
func (w *world) happenToAway() {
	for _, x := range w.disks {
		switch {
		case !x.Missing:
		case w.r.IntN(6) == 0:
			x.Missing, x.MissingFor = false, 0
			w.note("disk of osd.%d is back", x.id)
		case w.r.IntN(2) == 0:
			x.osd.In, x.osd.AutoOut = false, x.known
		}
	}
}

// happenTo has the daemon of an OSD end or run again, Ceph mark one out that is down, or a person give up a disk.
func (w *world) happenTo(d *worldDisk) {
	switch w.r.IntN(5) {
	case 0, 1:
		if d.known && d.Deployed == Yes && !d.dead && !d.Missing {
			d.osd.Up = !d.osd.Up
			w.note("osd.%d is up: %t", d.id, d.osd.Up)
		}
	case 2:
		if d.known && !d.osd.Up && !d.osd.New {
			d.osd.In, d.osd.AutoOut = false, true
			w.note("Ceph marks osd.%d out", d.id)
		}
	case 3:
		w.giveUp(d)
	case 4:
		w.goesAway(d)
	}
}

// giveUp has a person give a disk up, or take that back.
func (w *world) giveUp(d *worldDisk) {
	if d.GivenUp || !w.auto || w.r.IntN(8) == 0 {
		d.GivenUp, d.AutoReplaced = !d.GivenUp && d.known, false
	}
}

// goesAway pulls a disk, unless it has the last copy of something.
func (w *world) goesAway(d *worldDisk) {
	if d.known && !d.osd.New && !d.dead && !w.lastCopy(d) {
		d.osd.Up, d.Missing, d.MissingFor = false, true, awayFor
		w.note("disk of osd.%d is away", d.id)
	}
}

func (w *world) staying() int {
	n := 0
	for _, h := range w.hosts {
		if !h.Leaving {
			n++
		}
	}
	return n
}

// toggleMonitor has a monitor die or come back. A majority stays: what is lost without any step of ours tells nothing.
func (w *world) toggleMonitor() {
	for _, r := range w.records {
		if runs, mapped := w.mons[r.Name]; mapped && w.r.IntN(2) == 0 {
			w.mons[r.Name] = !runs
			if !w.hasQuorum() {
				w.mons[r.Name] = runs
			}
			w.note("monitor %s runs: %t", r.Name, w.mons[r.Name])
			return
		}
	}
}

// lastCopy reports whether a group has no whole copy but that on a disk.
func (w *world) lastCopy(d *worldDisk) bool {
	return slices.ContainsFunc(w.groups, func(g []string) bool {
		_, whole := w.lying(g, d.UUID)
		return slices.Contains(g, d.UUID) && whole == 0
	})
}

// take performs a step, and holds it against what is true. It may be cut off before it has an effect.
func (w *world) take(s Step) {
	w.t.Helper()
	w.did[s.Do]++
	before := w.hasQuorum()
	cut := w.r.IntN(5) == 0
	w.note("%s (cut off: %t)", s, cut)
	switch s.Do {
	case StartMonitor, RemoveMonitor:
		w.takeMonitor(s, cut)
	case CreatePool, SetSize, SetMinSize:
		w.takePool(s, cut)
	case SetNoOut, UnsetNoOut, RemoveHost:
	default:
		w.takeOSD(s, w.find(s.UUID), cut)
	}
	if before && !w.hasQuorum() {
		w.fail("%s leaves %d of %d monitors", s, w.running(), len(w.mons))
	}
}

// takeMonitor writes the record first, and joins or leaves the map then.
func (w *world) takeMonitor(s Step, cut bool) {
	w.t.Helper()
	r := MonitorRecord{s.Name, s.Host}
	if s.Do == RemoveMonitor {
		if cut && w.r.IntN(2) == 0 {
			return
		}
		delete(w.mons, s.Name)
		if cut {
			return
		}
		delete(w.workload, s.Name)
		w.records = slices.DeleteFunc(slices.Clone(w.records), func(x MonitorRecord) bool { return x == r })
		return
	}
	if s.First && len(w.mons) > 0 {
		w.fail("%s makes another cluster", s)
	}
	if !slices.Contains(w.records, r) {
		w.records = append(slices.Clone(w.records), r)
		w.names++
	}
	if cut {
		return
	}
	w.workload[s.Name] = true
	if s.First || w.hasQuorum() {
		w.mons[s.Name] = true
	}
}

func (w *world) takePool(s Step, cut bool) {
	w.t.Helper()
	switch {
	case cut:
	case s.Do == SetSize:
		w.pool.Size = s.Value
	case s.Do == SetMinSize:
		for _, g := range w.groups {
			if up, _ := w.lying(g, ""); up >= w.pool.MinSize && up < s.Value {
				w.fail("%s has a group serve nothing", s)
			}
		}
		w.pool.MinSize = s.Value
	case s.Do == CreatePool:
		if w.served {
			w.fail("%s is empty, in place of one with data", s)
		}
		w.pool = Pool{Name: s.Name, Size: s.Value, MinSize: MinSize(s.Value)}
		for range 6 {
			var g []string
			for range s.Value {
				if to := w.target(g); to != "" {
					g = append(g, to)
				}
			}
			w.groups = append(w.groups, g)
		}
	}
}

func (w *world) leaving(host string) bool {
	return slices.ContainsFunc(w.hosts, func(h Host) bool { return h.Name == host && h.Leaving })
}

// wrong says why a step on an OSD must not be taken; empty if it may be.
func (w *world) wrong(s Step, d *worldDisk) string {
	holds := slices.ContainsFunc(w.groups, func(g []string) bool { return slices.Contains(g, d.UUID) })
	if s.Do == ZapOSD && s.Loses == "" && d.returned() && !d.dead && !w.leaving(d.Host) {
		return "nobody approved that it goes, and it is back"
	}
	bad := map[Action]bool{
		ZapOSD:     d.known || d.osd.Up || holds && !d.dead,
		PurgeOSD:   d.osd.Up || d.Deployed != No || holds,
		PrepareOSD: d.Kind == osd.Ready || !d.osd.New,
		StopOSD:    holds && d.osd.Up,
	}
	if bad[s.Do] {
		return fmt.Sprintf("known %t, up %t, new %t, deployed %s, copies on it %t, dead %t", d.known, d.osd.Up, d.osd.New, d.Deployed, holds, d.dead)
	}
	return ""
}

// record is what is written before anything is asked for.
func (d *worldDisk) record(s Step) {
	d.Outed = d.Outed && s.Do != InOSD || s.Do == OutOSD
	d.Purged = d.Purged && s.Do != RegisterOSD || s.Do == PurgeOSD
	switch s.Do {
	case ReplaceOSD:
		d.GivenUp, d.AutoReplaced = true, s.Loses == ""
	case KeepOSD:
		d.GivenUp, d.AutoReplaced, d.Purged = false, false, false
	}
}

func (w *world) takeOSD(s Step, d *worldDisk, cut bool) {
	w.t.Helper()
	if why := w.wrong(s, d); why != "" {
		w.fail("%s on an OSD: %s", s, why)
	}
	d.record(s)
	if cut {
		if s.Do == PrepareOSD {
			d.Kind = osd.Unfinished
		}
		return
	}
	switch s.Do {
	case RegisterOSD:
		d.known, d.osd = true, OSD{ID: d.id, UUID: d.UUID, New: true, In: true}
	case PrepareOSD:
		d.Kind = osd.Ready
	case StartOSD:
		d.Deployed = Yes
		d.osd.Up, d.osd.New, d.osd.Host = !d.dead && !d.Missing, false, d.Host
	case StopOSD:
		d.Deployed, d.osd.Up = No, false
	case OutOSD, InOSD:
		d.osd.In = s.Do == InOSD
	case PurgeOSD:
		d.known, d.osd = false, OSD{}
	case ZapOSD:
		// A disk that is away keeps what is on it, and comes back as one that nobody has on record: here, as another one.
		d.Kind, d.GivenUp, d.Purged, d.AutoReplaced, d.Missing = osd.Empty, false, false, false, false
	}
}
