package view

import (
	"slices"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

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
			s := v.whole(v1alpha1.ActionRemoveDaemon, "", "The data of a monitor that is gone are removed.")
			s.Member, s.Daemon = m.Name, cephpod.Daemon{Kind: cephname.DaemonSweep, ID: name, Node: n}
			p.step(s)
		}
		for _, o := range record(m).OSDs {
			known, _ := v.known(o.UUID)
			clean := v.seen.Verdicts[o.UUID].Kind == osd.Empty
			lost := backend.Lost(m)
			if (!m.DeletionTimestamp.IsZero() || o.Purged) && known == ceph.No && v.deployedOSD(o.UUID) == ceph.No && (clean || lost) {
				p.step(v.offRecord(m, o, "The disk is clean, and no OSD of Ceph any more."))
			}
		}
	}
}

// offRecord takes a disk off the record that nothing is to be done to. The key that goes is the one that is on record now.
func (v *View) offRecord(m *v1alpha1.Member, o v1alpha1.MemberOSD, why string) Step {
	s := v.whole(v1alpha1.ActionZapOSD, "", why)
	s.Member, s.Ceph = m.Name, ceph.Step{Do: ceph.ZapOSD, Host: string(m.Spec.Node), Path: string(o.Path), UUID: o.UUID, ID: -1}
	s.Daemon.Secret = o.Secret
	return s
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
