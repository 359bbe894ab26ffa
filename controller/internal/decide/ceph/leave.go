package ceph

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/osd"
)

// moving are the flags that keep data where they are.
var moving = []string{"pause", "norecover", "nobackfill", "norebalance"}

// leave returns the steps by which OSDs leave. What can be taken back (out) is done for all of them; what cannot (stop, purge) for one at a time, the first by host and path. Disks of OSDs that Ceph
// has forgotten are given back all at once: one that cannot be cleared holds up no other OSD.
func (w OSDs) leave(p *Plan, disks []Disk, f Facts) {
	var leaving []Disk
	for _, d := range disks {
		if w.leaves(d) {
			leaving = append(leaving, d)
		}
	}
	if len(leaving) == 0 {
		return
	}
	if why := w.room(leaving, *f.Map); why != "" {
		p.wait("%s", why)
	}
	// While the daemon of one ends, none that runs is stopped. One that ends on a host which is off holds up nothing.
	ending := slices.ContainsFunc(leaving, func(d Disk) bool {
		o, _ := f.Map.byUUID(d.UUID)
		return d.Ending && o.Up
	})
	final := false
	for _, d := range leaving {
		s, wait := w.next(leaving, d, f)
		switch {
		case wait != "":
			p.wait("%s", wait)
		case s.Do == OutOSD || s.Do == ZapOSD:
			p.step(s)
		case ending && s.Do == StopOSD:
			p.wait("osd.%d on %s is stopped once the daemon of another OSD that leaves has ended.", s.ID, d.Host)
		case !final:
			p.step(s)
			final = true
		}
	}
}

// next is the next step of an OSD that leaves, or what it waits for.
func (w OSDs) next(leaving []Disk, d Disk, f Facts) (s Step, wait string) {
	o, known := f.Map.byUUID(d.UUID)
	s = Step{Host: d.Host, Path: d.Path, UUID: d.UUID, ID: -1}
	if !known {
		return w.giveBack(s, d)
	}
	s.ID = o.ID
	if o.In && !o.New {
		if w.room(leaving, *f.Map) != "" {
			return s, fmt.Sprintf("osd.%d on %s keeps its data.", o.ID, d.Host)
		}
		s.Do, s.Why = OutOSD, "The OSD leaves: Ceph moves its data to the others."
		return s, ""
	}
	if o.New && !o.Up {
		if d.Deployed != No {
			return w.stop(s, o, d)
		}
		s.Do, s.Why = PurgeOSD, "The OSD leaves, and never ran."
		return s, ""
	}
	for _, flag := range moving {
		if slices.Contains(f.Map.Flags, flag) {
			return s, fmt.Sprintf("osd.%d on %s cannot be emptied while the flag %s is set.", o.ID, d.Host, flag)
		}
	}
	if f.Groups == nil {
		return s, fmt.Sprintf("osd.%d on %s stays: the state of the placement groups cannot be read.", o.ID, d.Host)
	}
	if o.SafeToDestroy != Yes || f.Groups.Inactive > 0 {
		return s, fmt.Sprintf("osd.%d on %s holds data that are not safe elsewhere yet (safe to destroy: %s). Ceph has %d objects to move, and %d copies to make%s.",
			o.ID, d.Host, o.SafeToDestroy, f.Groups.Misplaced, f.Groups.Degraded, f.Groups.rate())
	}
	if o.Up || d.Deployed != No {
		return w.stop(s, o, d)
	}
	s.Do, s.Why = PurgeOSD, "The OSD leaves, its daemon is stopped, and no placement group needs it."
	return s, ""
}

// rate says how fast Ceph is; empty while it does not say.
func (g *Groups) rate() string {
	if g.Recovering == 0 {
		return ""
	}
	return fmt.Sprintf(", at %d objects a second", g.Recovering)
}

// stop takes the daemon away if every placement group keeps enough copies without it.
func (w OSDs) stop(s Step, o OSD, d Disk) (Step, string) {
	switch {
	case d.Deployed == Unknown:
		return s, fmt.Sprintf("Whether the daemon of osd.%d on %s is deployed cannot be read.", o.ID, d.Host)
	case d.Ending:
		return s, w.ends(d)
	case d.Deployed == No:
		return s, fmt.Sprintf("The daemon of osd.%d on %s runs, and nobody deploys it.", o.ID, d.Host)
	case o.Up && o.OKToStop != Yes:
		return s, fmt.Sprintf("osd.%d on %s cannot be stopped now (ok to stop: %s).", o.ID, d.Host, o.OKToStop)
	}
	s.Do, s.Why = StopOSD, "The OSD leaves, and no placement group needs it."
	return s, ""
}

// giveBack makes the disk of an OSD clean that the monitors do not know any more.
func (w OSDs) giveBack(s Step, d Disk) (Step, string) {
	switch {
	case d.Ending:
		return s, w.ends(d)
	case d.Deployed == Yes:
		// Somebody else purged it, or an older backup brought the Deployment back. Its disk stays as it is.
		s.Do, s.Why = StopOSD, "The monitors do not know the OSD, so its daemon serves nothing."
		return s, ""
	case d.Deployed != No:
		return s, fmt.Sprintf("The daemon of disk %s on %s may still be deployed.", d.Path, d.Host)
	case d.cleared() && w.host(d.Host).Serving:
		s.Do, s.Why = ZapOSD, "The OSD is purged, and its disk is clean or gone: it goes off the record."
		return s, ""
	case d.Kind == osd.Empty:
		return s, fmt.Sprintf("Disk %s on %s is clean.", d.Path, d.Host)
	case d.Kind == osd.Unknown || d.Kind == osd.Other:
		return s, w.leftAlone(d)
	case d.Kind == osd.Ready && !d.Purged:
		// Monitors that lost what they knew, or were restored, do not know it either.
		return s, fmt.Sprintf("Disk %s on %s carries an OSD that the monitors do not know, and nobody purged it. It is left as it is.", d.Path, d.Host)
	case !w.host(d.Host).Serving:
		return s, fmt.Sprintf("Disk %s on %s is given back once its host answers.", d.Path, d.Host)
	}
	s.Do, s.Why = ZapOSD, "The monitors do not know the OSD any more."
	if d.returned() && !w.host(d.Host).Leaving {
		s.Loses = fmt.Sprintf("What is on disk %s of host %s is cleared. Its OSD was given up while the disk was away, when every placement group had all copies elsewhere.", d.Path, d.Host)
	}
	return s, ""
}

// ends says that the daemon of a disk has not ended yet, and what ends one whose host does not answer.
func (w OSDs) ends(d Disk) string {
	text := fmt.Sprintf("The daemon of disk %s on %s has no Deployment that stays, and its pod has not ended.", d.Path, d.Host)
	if !w.host(d.Host).Answers {
		text += fmt.Sprintf(" No agent answers on %s. Boot it. If it stays off, delete its Node from Kubernetes, or taint that with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute: the pod ends then.", d.Host)
	}
	return text
}

// leftAlone says why a disk is not given back.
func (w OSDs) leftAlone(d Disk) string {
	why := d.Message
	if d.Purged && d.Kind == osd.Unknown && w.host(d.Host).Serving {
		why = strings.TrimSuffix(why, ".") + ". "
		if d.Missing {
			why += "Put it back, and it is cleared. "
		}
		why += Unclearable(d.Host, d.GivenUp)
	}
	return fmt.Sprintf("Disk %s on %s is left as it is: %s", d.Path, d.Host, why)
}

// Unclearable says what a person does about a disk of a host that Ceph has forgotten the OSD of, and that cannot be cleared. replaced: the OSD was given up, and its host stays.
func Unclearable(host string, replaced bool) string {
	const destroy = "take it out of host %s and destroy it: what is on it was not cleared. "
	if replaced {
		return fmt.Sprintf("If the disk fails, "+destroy+"Its OSD goes off the record then.", host)
	}
	// While the agent answers, the word that the Member is lost is refused: a disk that it does not tell of may be there all the same.
	return fmt.Sprintf("If the disk fails, wait until the Member waits for nothing else, and switch host %s off. Then "+destroy+"While the host is off, declare its Member lost: the OSD goes off the record then.", host, host)
}

// cleared reports whether nothing of an OSD that was purged, or given up, is left but the record: its disk is clean, or it was replaced and is not there any more. Of one that was given up somebody else may
// have made Ceph forget it.
func (d Disk) cleared() bool {
	return d.Kind == osd.Empty && (d.Purged || d.GivenUp) || (d.Purged || !d.known) && d.Missing && d.GivenUp
}

// hosts takes hosts that leave out of the CRUSH map, once no OSD is there.
func (w OSDs) hosts(p *Plan, m Map) {
	for _, h := range w.Hosts {
		used := slices.ContainsFunc(m.OSDs, func(o OSD) bool { return o.Host == h.Name })
		if h.Leaving && !used && slices.Contains(m.Hosts, h.Name) {
			p.step(Step{Do: RemoveHost, Host: h.Name, ID: -1, Why: "The host leaves, and has no OSD any more."})
		}
	}
}

// room says why the data of those that leave have no place on the others; empty if they have. Each copy needs a place of its own.
func (w OSDs) room(leaving []Disk, m Map) string {
	gone := func(o OSD) bool {
		return slices.ContainsFunc(leaving, func(d Disk) bool { return d.UUID == o.UUID })
	}
	copies := 0
	for _, pool := range m.Pools {
		copies = max(copies, pool.Size)
	}
	if left := m.places(w.ShareHost, gone); left < copies {
		return fmt.Sprintf("OSDs that leave keep their data: the pools have %d copies of everything, and only %d places would be left to keep them.", copies, left)
	}
	var used, total, stays int64
	places := map[string]int64{}
	for _, o := range m.OSDs {
		switch {
		case o.New:
		case o.TotalBytes <= 0:
			if !gone(o) && o.In || gone(o) && o.Up {
				return fmt.Sprintf("OSDs that leave keep their data: how full osd.%d is cannot be read.", o.ID)
			}
		case gone(o):
			used += o.UsedBytes
		case o.Up && o.In:
			total += o.TotalBytes
			stays += o.UsedBytes
			places[o.place(w.ShareHost)] += o.TotalBytes
		}
	}
	if used > 0 && hold(places, stays+used, copies) < stays+used {
		return fmt.Sprintf("OSDs that leave keep their data: the others have %d of %d bytes in use already, and would get %d more. Ceph warns of an OSD that is 85 percent full, and none of %d places can hold more than one of %d copies.",
			stays, total, used, len(places), copies)
	}
	return ""
}

// hold is how much of some bytes fits on places of some sizes. Ceph warns from 85 percent on, and stops moving data at 90. No place has two copies of anything, so that a large one cannot hold what has no room on small ones.
func hold(places map[string]int64, bytes int64, copies int) (out int64) {
	n := int64(max(1, copies))
	for _, size := range places {
		out += min(size/100*85, (bytes+n-1)/n)
	}
	return out
}
