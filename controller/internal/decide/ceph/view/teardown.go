package view

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// tearDown removes everything of a Cluster that is being deleted, once no volume is left. Nothing is given up before that is known; once it is on record, it stays so.
func (v *View) tearDown(p *plan) {
	for _, n := range v.nodes() {
		if v.member(n).DeletionTimestamp.IsZero() {
			// The engine condemns the members once nothing holds the deletion up.
			return
		}
	}
	if !noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephRemoved) {
		if v.volumesLeft(p) || v.stillAdopts(p) {
			return
		}
		p.step(v.whole(v1alpha1.ActionTearDownCeph, "", "No volume is left."))
		return
	}
	if v.stop(p) {
		return
	}
	v.clear(p)
	// Keys that a person restored outlive a Cluster which never took them up.
	if len(p.steps) == 0 && len(p.waits) == 0 && v.seen.Workloads.Left && noted.Begun(v.seen.Cluster) {
		p.step(v.whole(v1alpha1.ActionTearDownCeph, "", "Nothing of it runs any more: its keys and its configuration go."))
	}
}

// stillAdopts reports whether OSDs come on record first, so that their disks are given back clean. One that cannot is named: its disk would keep what is on it. A person may say that this is not needed.
func (v *View) stillAdopts(p *plan) bool {
	for _, u := range v.Unrecorded() {
		if v.unadoptable(u) == "" {
			p.wait("osd.%d on %s of %s comes on record first, so that its disk is given back clean.", u.OSD.ID, u.Device.Path, u.Node)
			return true
		}
	}
	c := v.seen.Cluster
	switch {
	case c.Annotations[v1alpha1.AnnotationLeaveDisks] == string(c.UID):
		return false
	case !v.mapped() && (c.Annotations[v1alpha1.AnnotationRemove] == string(c.UID) || !v.quorumSeen() && !noted.Served(c)):
		// Nobody can ask, and a person gives up what is there, or there never was an OSD.
		return false
	case !v.mapped():
		p.wait("Ceph does not say which OSDs it has: one that is on no record would keep what is on its disk. If that may be, annotate the Cluster with %s=%s. The keys of encrypted disks go with it.", v1alpha1.AnnotationLeaveDisks, c.UID)
		return true
	}
	all := v.everyone()
	for _, o := range v.seen.Ceph.Map.OSDs {
		if o.UUID != "" && !osdrecord.OnRecord(all, o.UUID) {
			p.wait("osd.%d, which ran on %s, is on no record, and its disk would keep what is on it. Switch the host on, or put the disk back, so that it is cleared. If it may stay as it is, annotate the Cluster with %s=%s. Save the Secret with its key first if it is encrypted: that goes with the Cluster.", o.ID, or(o.Host, "a host that Ceph does not name"), v1alpha1.AnnotationLeaveDisks, c.UID)
			return true
		}
	}
	return false
}

// volumesLeft reports whether there are volumes, or nobody can say.
func (v *View) volumesLeft(p *plan) bool {
	names, known := v.volumes()
	switch {
	case known:
	case v.doubted() != "":
		p.silent = true
		p.wait("%s", v.doubted())
	case v.unlisted():
		p.wait("Ceph is asked which volumes there are.")
	default:
		p.silent = true
		p.wait("Nobody can say whether the filesystem has volumes: Ceph does not answer. If what is on the disks is not needed, annotate the Cluster with %s=%s.", v1alpha1.AnnotationRemove, v.seen.Cluster.UID)
	}
	return !known || len(names) > 0
}

// volumes returns those of a Cluster that is being deleted, and whether they are known. A person may say that they are not needed.
func (v *View) volumes() (names []string, known bool) {
	c, t := v.seen.Cluster, v.seen.Ceph
	switch {
	case c.Annotations[v1alpha1.AnnotationRemove] == string(c.UID):
		return nil, true
	case !noted.Served(c) && v.neverServed():
		return nil, true
	case t == nil || !v.seen.Current || t.Subvolumes == nil:
		return nil, false
	}
	return *t.Subvolumes, true
}

// doubted says why a Cluster that is being deleted, and whose monitors nobody ever saw, is not given up: its Ceph cluster exists, or may exist. It is empty if that holds nothing.
func (v *View) doubted() string {
	e := v.existing()
	switch {
	case v.quorumSeen() || !noted.Begun(v.seen.Cluster):
		return ""
	case e.Proof != "":
		return fmt.Sprintf("volumes of a Ceph cluster that exists, since %s, and that nothing on record leads to (docs/ceph-repair.md, what is younger than a backup; if what is on the disks is not needed, annotate the Cluster with %s=%s)", e.Proof, v1alpha1.AnnotationRemove, v.seen.Cluster.UID)
	case e.Doubt != "":
		return fmt.Sprintf("volumes of a Ceph cluster that may exist (%s If what is on the disks is not needed, annotate the Cluster with %s=%s)", e.Doubt, v1alpha1.AnnotationRemove, v.seen.Cluster.UID)
	}
	return ""
}

// neverServed reports whether a Cluster without the record that it served can have no volume: its monitors say now that there is no filesystem, or they were never seen and there is
// nothing on any disk. The record alone says nothing: it is lost when somebody replaces the Cluster by its manifest.
func (v *View) neverServed() bool {
	t := v.seen.Ceph
	if t != nil && v.seen.Current && v.own(t.Map) {
		ours := func(p ceph.Pool) bool { return p.Name == cephname.PoolData || p.Name == cephname.PoolMetadata }
		if t.Filesystem == ceph.No || t.Map != nil && !slices.ContainsFunc(t.Map.Pools, ours) {
			return true
		}
	}
	if v.quorumSeen() || slices.ContainsFunc(v.disks(), func(d ceph.Disk) bool { return d.Kind != osd.Empty }) {
		return false
	}
	// Of a Cluster that has not begun neither keys nor disks are given up. Disks that are not on record may have OSDs of it all the same.
	return !noted.Begun(v.seen.Cluster) || v.unmade() == ""
}

// own reports whether the monitors that answer are the Cluster's: they were on record as a quorum, or know an OSD on record, and they know each that a disk on record carries. Others may have made a second Ceph cluster, which has no filesystem either.
func (v *View) own(m *ceph.Map) bool {
	own := v.quorumSeen()
	for _, member := range v.seen.World.Members {
		for _, o := range record(member).OSDs {
			switch known := m != nil && slices.ContainsFunc(m.OSDs, func(x ceph.OSD) bool { return x.UUID == o.UUID }); {
			case known:
				own = true
			case !o.Purged && carried(v.seen.Verdicts[o.UUID], o.UUID) != "":
				return false
			}
		}
	}
	return own
}

// holding names the volumes that keep a Cluster which is being deleted, before anything of it is given up.
func (v *View) holding() []string {
	if !v.deleting() || noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephRemoved) {
		return nil
	}
	names, known := v.volumes()
	if known {
		return names
	}
	switch t := v.seen.Ceph; {
	case t != nil && t.Subvolumes != nil && len(*t.Subvolumes) > 0:
		return *t.Subvolumes
	case v.doubted() != "":
		return []string{v.doubted()}
	case v.unlisted():
		return []string{"volumes, if Ceph has any: it is being asked"}
	}
	return []string{fmt.Sprintf("volumes that nobody can list, as Ceph does not answer (if what is on the disks is not needed, annotate the Cluster with %s=%s)",
		v1alpha1.AnnotationRemove, v.seen.Cluster.UID)}
}

// unlisted reports whether Ceph answered, and was not asked since the Cluster is being deleted. Nobody is told then that the volumes can be given up.
func (v *View) unlisted() bool {
	t := v.seen.Ceph
	return t != nil && v.seen.Current && t.Subvolumes == nil && t.At.Before(v.seen.Cluster.DeletionTimestamp.Time)
}

// clear gives the disks back clean, and then removes the data of the monitors. These stay on all hosts while a disk of any host is on record: nothing reads the disks without them. One of a host that was
// declared lost, and does not answer, holds nothing.
func (v *View) clear(p *plan) {
	held := false
	for _, n := range v.nodes() {
		m, f := v.member(n), v.Facts(n)
		for _, o := range record(m).OSDs {
			held = held || !backend.Lost(m) || f.Up || f.TooEarly
			verdict := v.seen.Verdicts[o.UUID]
			d, there := osdrecord.Device(v.seen.Nodes[n], o)
			s := v.offRecord(m, o, "The disk is clean.")
			switch {
			case verdict.Kind == osd.Empty:
				p.step(s)
			case !there || verdict.Kind == osd.Unknown || verdict.Kind == osd.Other:
				p.wait("Disk %s on %s is not given back: %s", o.Path, n, v.notCleared(n, there, verdict))
			default:
				s.Through, s.Devices, s.Making, s.Why = n, []decide.Device{d}, verdict.Making, "The Cluster is being deleted, and no volume is left."
				p.step(s)
			}
		}
	}
	for _, n := range v.nodes() {
		m := v.member(n)
		for _, name := range stores(record(m)) {
			switch {
			case len(record(m).OSDs) > 0:
			case held:
				p.wait("The data of monitor %s on %s stay until every disk is given back.", name, n)
			default:
				v.sweepOne(p, m, name, "The data of the monitor are removed.")
			}
		}
	}
}

// notCleared says why a disk of a Cluster that is being deleted is not given back, and what a person does about one that never will be.
func (v *View) notCleared(node string, there bool, verdict osd.Verdict) string {
	switch {
	case !v.seen.Nodes[node].Up() || verdict.Kind == osd.Other:
	case !there:
		return "the agent of its host tells of no such disk. Put it back, and it is cleared. " + ceph.Unclearable(node, false)
	case verdict.Message != "":
		return strings.TrimSuffix(verdict.Message, ".") + ". " + ceph.Unclearable(node, false)
	}
	return or(verdict.Message, "its agent has not said what is on it.")
}

// sweep removes what is left of monitors, and the record of disks that are clean again.
func (v *View) sweep(p *plan) {
	for _, n := range v.nodes() {
		m := v.member(n)
		for _, name := range record(m).Swept {
			if backend.Lost(m) {
				continue
			}
			if why := v.monitorStays(name); why != "" {
				p.wait("The data of monitor %s on %s stay: %s", name, n, why)
				continue
			}
			v.sweepOne(p, m, name, "The data of a monitor that is gone are removed.")
		}
		for _, o := range record(m).OSDs {
			known, _ := v.known(o.UUID)
			if m.DeletionTimestamp.IsZero() && !o.Purged && !o.Replaced || known != ceph.No || v.deployedOSD(o.UUID) != ceph.No {
				continue
			}
			switch {
			case v.seen.Verdicts[o.UUID].Kind == osd.Empty:
				p.step(v.offRecord(m, o, "The disk is clean, and no OSD of Ceph any more."))
			case backend.Lost(m) && !v.back(n, o):
				p.step(v.offRecord(m, o, "The Member is declared lost, and the disk is no OSD of Ceph any more."))
			}
		}
	}
}

// back reports whether a disk of a host that was declared lost is there, and stays on record until it is cleared: it carries an OSD, or one that nobody purged may be on it. Monitors that lost what
// they knew, or were restored, do not know such an OSD, and its key is worth something as long as its disk is.
func (v *View) back(node string, o v1alpha1.MemberOSD) bool {
	n := v.seen.Nodes[node]
	_, there := osdrecord.Device(n, o)
	switch {
	case n.Agent == decide.AgentConnecting:
		// Before the agent was asked once, nobody can say that the host is off.
		return true
	case !there || !n.Up():
		return false
	}
	switch v.seen.Verdicts[o.UUID].Kind {
	case osd.Ready, osd.Unfinished:
		return true
	case osd.Unknown:
		return !o.Purged
	}
	return false
}

// monitorStays says why the data of a monitor cannot be those of one that is gone; empty when they can.
func (v *View) monitorStays(name string) string {
	records, _ := v.monitors()
	deployed := v.of(cephname.DaemonMonitor)
	t := v.seen.Ceph
	switch {
	case slices.ContainsFunc(records, func(r ceph.MonitorRecord) bool { return r.Name == name }):
		return "a monitor of that name is on record."
	case slices.ContainsFunc(deployed, func(w Workload) bool { return w.ID == name }):
		return "a monitor of that name is deployed."
	case t == nil || t.Quorum == nil || !v.seen.Current:
		return "the monitors do not say whether it is one of them."
	case slices.ContainsFunc(t.Quorum.Monitors, func(m ceph.Monitor) bool { return m.Name == name }):
		return "it is one of the monitors of the Ceph cluster."
	}
	return ""
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
