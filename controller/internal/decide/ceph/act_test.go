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
		w.note("host %s serves: %t", h.Name, h.Serving)
	case 1:
		if w.staying() > 2 {
			h.Leaving = true
			w.note("host %s leaves", h.Name)
		}
	case 2:
		h.Leaving = false
		w.note("host %s stays", h.Name)
	case 3:
		if len(w.hosts) < 7 {
			w.addHost(fmt.Sprintf("n%d", len(w.hosts)))
			w.note("host n%d comes", len(w.hosts)-1)
		}
	case 4, 5:
		w.toggleMonitor()
	case 6, 7:
		if d.known && d.Deployed == Yes && !d.dead {
			d.osd.Up = !d.osd.Up
			w.note("osd.%d is up: %t", d.id, d.osd.Up)
		}
	case 8:
		if d.known && !d.osd.Up && !d.osd.New {
			d.osd.In = false
			w.note("Ceph marks osd.%d out", d.id)
		}
	case 9:
		d.Leaving = !d.Leaving && d.known
	case 10:
		if w.r.IntN(4) == 0 && d.known && !w.lastCopy(d) {
			d.dead, d.osd.Up = true, false
			w.note("disk of osd.%d dies", d.id)
		}
	case 11:
		h.Maintenance = !h.Maintenance
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

func (w *world) takeOSD(s Step, d *worldDisk, cut bool) {
	w.t.Helper()
	holds := slices.ContainsFunc(w.groups, func(g []string) bool { return slices.Contains(g, d.UUID) })
	switch {
	case s.Do == ZapOSD && (d.known || d.osd.Up || holds && !d.dead):
		w.fail("%s clears a disk that the OSD map or a placement group needs", s)
	case s.Do == PurgeOSD && (d.osd.Up || d.Deployed != No || holds):
		w.fail("%s forgets an OSD that is up, or has copies", s)
	case s.Do == PrepareOSD && (d.Kind == osd.Ready || !d.osd.New):
		w.fail("%s makes an OSD anew", s)
	case s.Do == StopOSD && holds && d.osd.Up:
		w.fail("%s stops an OSD that serves", s)
	}
	// The record is written before anything is asked for.
	d.Outed = d.Outed && s.Do != InOSD || s.Do == OutOSD
	d.Purged = d.Purged || s.Do == PurgeOSD
	if cut {
		if s.Do == PrepareOSD {
			d.Kind = osd.Unfinished
		}
		return
	}
	switch s.Do {
	case RegisterOSD:
		d.known, d.Purged, d.osd = true, false, OSD{ID: d.id, UUID: d.UUID, New: true, In: true}
	case PrepareOSD:
		d.Kind = osd.Ready
	case StartOSD:
		d.Deployed = Yes
		d.osd.Up, d.osd.New, d.osd.Host = !d.dead, false, d.Host
	case StopOSD:
		d.Deployed, d.osd.Up = No, false
	case OutOSD:
		d.osd.In = false
	case InOSD:
		d.osd.In = true
	case PurgeOSD:
		d.known, d.osd = false, OSD{}
	case ZapOSD:
		d.Kind, d.Leaving = osd.Empty, false
	}
}
