package ceph

import "fmt"

// offer lets a person give up an OSD that died: one that is down, and that Ceph has marked out after its own interval. Until then, and as long as nobody
// approves, its disk may come back with all that is on it.
func (w OSDs) offer(p *Plan, d Disk, m Map) {
	o, known := m.byUUID(d.UUID)
	if !known || o.Up || o.In || o.New || d.Outed || d.Purged || !d.Recorded {
		return
	}
	switch h := w.host(d.Host); {
	case h.Maintenance:
		p.wait("osd.%d on %s is down, and Ceph has marked it out. It can be replaced after the maintenance of its host.", o.ID, d.Host)
	case !h.Serving:
		p.wait("osd.%d on %s is down, and Ceph has marked it out. It can be replaced once the agent of its host answers.", o.ID, d.Host)
	default:
		p.wait("osd.%d on %s is down, and Ceph has marked it out. Bring its disk back, or approve ReplaceOSD in the plan of the Cluster.", o.ID, d.Host)
		p.step(Step{
			Do: ReplaceOSD, Host: d.Host, Path: d.Path, UUID: d.UUID, ID: o.ID, Why: "The OSD is down, and Ceph has marked it out.",
			Loses: fmt.Sprintf("What is on disk %s of host %s is given up. It is cleared once Ceph says that no placement group needs it.", d.Path, d.Host),
		})
	}
}
