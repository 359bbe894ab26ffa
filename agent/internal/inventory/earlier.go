package inventory

import (
	"errors"
	"slices"

	"quarry.storage/quarry/agent/internal/host/lvm"
)

// dropEarlier takes the groups of ours out of a report of which LVM shows a state of before, because the disks that know the newest are away. What is in
// such a group now is not known: a volume that it shows may be gone or elsewhere, one that it calls new may have been used, and what is changed in it
// would be a second truth beside the one on the disks that are away. So its devices are those of an unknown group. One of another node is not used here
// anyway.
func (i *Inventory) dropEarlier(t *told, labelled []*observed) {
	for _, vg := range slices.Clone(t.vgs) {
		if _, ours := ownerOf(vg.Tags); vg.Earlier == "" || !ours || i.otherNode(vg.SystemID) != "" {
			continue
		}
		t.vgs = slices.DeleteFunc(t.vgs, func(v lvm.VG) bool { return v.UUID == vg.UUID })
		t.fail(slices.DeleteFunc(slices.Clone(labelled), func(d *observed) bool {
			return !slices.ContainsFunc(t.pvs, func(p lvm.PV) bool { return p.UUID == d.PVUUID && p.VGUUID == vg.UUID && !p.Missing })
		}), errors.New(vg.Earlier))
	}
}
