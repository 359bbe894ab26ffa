package inventory

import (
	"strings"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
)

// lvmUUID begins the UUID of a device of LVM in device-mapper. Those of group and volume follow, without their hyphens, and a suffix on some of
// the hidden ones.
const (
	lvmUUID      = "LVM-"
	lvmUUIDBytes = len(lvmUUID) + 64
)

// markStale marks the volumes and pools whose devices are built on something else than the disks of the group that LVM sees. A disk that dropped
// off and came back is another device to the kernel: what was active at the time leads to the old one for good, and every read fails.
func (j join) markStale(g plan.Group, vg lvm.VG, all []*observed) plan.Group {
	disks := map[string]bool{}
	for _, p := range j.all {
		if d := j.devices[p.UUID]; d != nil && !p.Missing && p.VGUUID == vg.UUID {
			disks[d.KernelName] = true
		}
	}
	byName := map[string]*observed{}
	for _, d := range all {
		byName[d.KernelName] = d
	}
	stale := map[string]bool{}
	for _, d := range all {
		if uuid := d.block.DMUUID; strings.HasPrefix(uuid, lvmUUID) && len(uuid) >= lvmUUIDBytes && !leads(d, disks, byName) {
			stale[uuid[:lvmUUIDBytes]] = true
		}
	}
	for _, v := range vg.Volumes {
		if v.Active && v.Health != plan.HealthPartial && stale[lvmUUID+strings.ReplaceAll(vg.UUID+v.UUID, "-", "")] {
			g = g.Stale(v.Name)
		}
	}
	return g
}

// leads reports whether a device of device-mapper is built on some disks only. It is true where the kernel does not tell what it is built on.
func leads(d *observed, disks map[string]bool, byName map[string]*observed) bool {
	for _, name := range d.block.Slaves {
		below := byName[name]
		switch {
		case disks[name]:
		case below == nil, below.block.DMUUID == "", !leads(below, disks, byName):
			return false
		}
	}
	return true
}

// keepStale marks what was stale and is active still: LVM alone does not tell.
func keepStale(g, was plan.Group) plan.Group {
	for _, v := range was.LogicalVolumes {
		if now, ok := g.Volume(v.Name); ok && v.Stale && now.Active && now.UUID == v.UUID {
			g = g.Stale(v.Name)
		}
	}
	for _, p := range was.Pools {
		if now, ok := g.Pool(p.Name); ok && p.Stale && now.Active {
			g = g.Stale(p.Name)
		}
	}
	return g
}
