package view

import (
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
			s := v.whole(v1alpha1.ActionRemoveDaemon, "", "The data of a monitor that is gone are removed.")
			s.Member, s.Daemon = m.Name, cephpod.Daemon{Kind: cephname.DaemonSweep, ID: name, Node: n}
			p.step(s)
		}
		for _, o := range record(m).OSDs {
			known, _ := v.known(o.UUID)
			clean := v.seen.Verdicts[o.UUID].Kind == osd.Empty
			lost := backend.Lost(m)
			if (!m.DeletionTimestamp.IsZero() || o.Purged) && known == ceph.No && v.deployedOSD(o.UUID) == ceph.No && (clean || lost) {
				s := v.whole(v1alpha1.ActionZapOSD, "", "The disk is clean, and no OSD of Ceph any more.")
				s.Member, s.Ceph = m.Name, ceph.Step{Do: ceph.ZapOSD, Host: n, Path: string(o.Path), UUID: o.UUID, ID: -1}
				p.step(s)
			}
		}
	}
}
