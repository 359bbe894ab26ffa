package ceph

import (
	"cmp"
	"slices"

	"quarry.storage/quarry/pkg/osd"
)

// OSDs is what is wanted of the OSDs.
type OSDs struct {
	Disks []Disk
	Hosts []Host
	// Tools are the hosts on which the container with Ceph's programs runs.
	Tools []string
	// ShareHost: copies of one object may be on one host.
	ShareHost bool
	// AutoReplace: an OSD that died is given up without a person where nothing can be lost by it.
	AutoReplace bool
}

// host returns a host of the Cluster. One that the Cluster does not have serves nothing.
func (w OSDs) host(name string) Host {
	i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{Name: name, Leaving: true}
	}
	return w.Hosts[i]
}

// leaves reports whether an OSD is being removed. One that was given up without a person stays if its disk comes back before the monitors forgot it: that they were to forget it may be on record
// even if they refused, or were never asked.
func (w OSDs) leaves(d Disk) bool {
	return d.GivenUp && (!d.returned() || !d.known && d.Purged) || w.host(d.Host).Leaving
}

// PlanOSDs returns the steps that bring OSDs up, for each disk one, and those by which they leave: of these at most one that takes data from Ceph for good.
func PlanOSDs(w OSDs, f Facts) Plan {
	var p Plan
	if f.Quorum == nil || f.Quorum.in() < majority(len(f.Quorum.Monitors)) || f.Map == nil {
		p.wait("The monitors do not answer, so nothing is done to OSDs.")
		return p
	}
	disks := slices.Clone(w.Disks)
	for i := range disks {
		_, disks[i].known = f.Map.byUUID(disks[i].UUID)
	}
	w.Disks = disks
	slices.SortFunc(disks, func(a, b Disk) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Path, b.Path)) })
	for _, d := range disks {
		if !w.leaves(d) {
			w.bringUp(&p, d, *f.Map)
			w.offer(&p, d, f)
		}
	}
	w.leave(&p, disks, f)
	w.hosts(&p, *f.Map)
	w.foreign(&p, *f.Map)
	return p
}

// foreign tells of OSDs that are on no disk of the Cluster. Nothing is done to them.
func (w OSDs) foreign(p *Plan, m Map) {
	for _, o := range m.OSDs {
		if o.UUID == "" {
			p.wait("osd.%d was destroyed by hand, and nothing of it comes back. Have Ceph forget it: ceph osd purge %d --yes-i-really-mean-it", o.ID, o.ID)
			continue
		}
		if !slices.ContainsFunc(w.Disks, func(d Disk) bool { return d.UUID == o.UUID }) {
			p.wait("osd.%d (%s) is on no disk that the Cluster has on record. It comes on record again if a host of the Cluster has its disk, and the disk carries it whole. Until then nothing is done to it.", o.ID, o.UUID)
		}
	}
}

// bringUp returns the next step for a disk that is to be an OSD: what the monitors know, what is on the disk, and whether the daemon is deployed lead
// to it, so that it does not matter where an earlier attempt ended.
func (w OSDs) bringUp(p *Plan, d Disk, m Map) {
	o, known := m.byUUID(d.UUID)
	s := Step{Host: d.Host, Path: d.Path, UUID: d.UUID, ID: -1}
	if known {
		s.ID = o.ID
	}
	lock(p, s, d, o)
	switch h := w.host(d.Host); {
	case d.GivenUp && !h.Serving:
		p.wait("osd.%d on %s was given up without a person. Whether its disk %s is there again is known once the agent of its host answers.", s.ID, d.Host, d.Path)
	case d.GivenUp:
		keep(p, s)
	case d.Deployed == Unknown:
		p.wait("Whether the daemon of disk %s on %s is deployed cannot be read.", d.Path, d.Host)
	case known && !o.In && d.Outed:
		bringIn(p, s, h)
	case d.Deployed == Yes:
		w.keepUp(p, s, d, o, h)
	case !h.Serving || h.Maintenance:
		p.wait("Disk %s waits for its host %s.", d.Path, d.Host)
	case d.Kind == osd.Unknown || d.Kind == osd.Other:
		p.wait("Disk %s on %s is not taken: %s", d.Path, d.Host, d.Message)
	case known:
		w.make(p, s, d, o)
	default:
		register(p, s, d)
	}
}

// keepUp has the daemon that is deployed on a disk get a new pod where it cannot run again in the one that it has, and tells else what it lacks. The OSD is the zero one where the monitors know none.
func (w OSDs) keepUp(p *Plan, s Step, d Disk, o OSD, h Host) {
	if d.Ending {
		p.wait("%s", w.ends(d))
		return
	}
	known := o.UUID != ""
	if known && d.Stale && !o.Up && d.Kind == osd.Ready && d.Locked == "" && h.Serving && !h.Maintenance {
		s.Do, s.Why = StopOSD, "The encrypted disk was away, and came back as another device: only a new pod of the daemon opens it anew."
		p.step(s)
		return
	}
	tell(p, d, o)
}

// lock tells of a disk that nobody opens any more. An OSD that never ran is offered instead.
func lock(p *Plan, s Step, d Disk, o OSD) {
	switch {
	case d.Locked == "" || o.New && !o.Up:
	case s.ID < 0:
		p.wait("No key opens disk %s on %s, and the monitors do not know its OSD: %s.", d.Path, d.Host, d.Locked)
	case o.Up:
		p.wait("The daemon of disk %s on %s (osd.%d) runs, and does not start again, for no key opens the disk: %s. If the key is lost for ever, empty the OSD while its disk is open: have Ceph mark it out.", d.Path, d.Host, s.ID, d.Locked)
	default:
		p.wait("The daemon of disk %s on %s (osd.%d) does not start again, for no key opens the disk: %s. If the key is lost for ever, so is what is on the disk: approve ReplaceOSD, which the plan offers once Ceph has marked the OSD out.",
			d.Path, d.Host, s.ID, d.Locked)
	}
}

// bringIn takes back that an OSD was to leave. Nothing is done to a host in maintenance.
func bringIn(p *Plan, s Step, h Host) {
	if h.Maintenance {
		p.wait("osd.%d is brought in once its host %s is not in maintenance any more.", s.ID, h.Name)
		return
	}
	s.Do, s.Why = InOSD, "The OSD was to leave, and stays now."
	p.step(s)
}

// tell says what a daemon that is deployed lacks.
func tell(p *Plan, d Disk, o OSD) {
	switch {
	case !o.Up:
		p.wait("The daemon of disk %s on %s does not run.", d.Path, d.Host)
	case !o.In:
		p.wait("osd.%d on %s is up, and somebody else marked it out.", o.ID, d.Host)
	}
}

// register has the monitors know the OSD that a disk is to become.
func register(p *Plan, s Step, d Disk) {
	if d.Kind == osd.Ready {
		// It may hold the only copy of something, and the monitors would believe that it is empty.
		p.wait("Disk %s on %s carries an OSD that the monitors do not know. Nothing is done to it.", d.Path, d.Host)
		return
	}
	s.Do, s.Why = RegisterOSD, "The disk is to become an OSD."
	p.step(s)
}

// make has a disk become the OSD that the monitors know, and its daemon run.
func (w OSDs) make(p *Plan, s Step, d Disk, o OSD) {
	switch {
	case d.Locked != "":
		// Without the key nothing starts, and no other key is made.
	case d.Kind == osd.Ready:
		s.Do, s.Why = StartOSD, "The disk carries the OSD, and its daemon is not deployed."
		p.step(s)
	case !o.New:
		p.wait("Disk %s on %s is %s, but osd.%d ran: its data are lost or on another disk. Bring that back, or approve ReplaceOSD, which the plan of the Cluster offers once Ceph has marked the OSD out.", d.Path, d.Host, d.Kind, o.ID)
	case !slices.Contains(w.Tools, d.Host):
		p.wait("Disk %s on %s waits for the container with Ceph's programs.", d.Path, d.Host)
	default:
		s.Do, s.Fresh, s.Why = PrepareOSD, true, "The monitors know the OSD, and it never ran."
		p.step(s)
	}
}
