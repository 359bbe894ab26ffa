package decide

import "quarry.storage/quarry/pkg/pvuuid"

// Orphan says whether a device carries a physical volume that was made for the owner on this very device and is in no group: a
// call for the owner was interrupted there. It is known by the UUID that agents give it.
func (d Device) Orphan(ownerUID string) bool {
	if d.VolumeGroup != "" || d.OwnerUID != "" || d.Digest == "" {
		return false
	}
	paths := append([]string{d.Path, pvuuid.Kernel(d.KernelName)}, d.Links...)
	return pvuuid.Is(d.PVUUID, ownerUID, pvuuid.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes}, paths...)
}
