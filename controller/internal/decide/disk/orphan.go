package disk

import (
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/pvuuid"
)

// Orphan reports whether a device carries a physical volume that was made for the owner on this very device and is in no group: a
// call for the owner was interrupted there. The UUID that agents give physical volumes tells it.
func Orphan(d decide.Device, ownerUID string) bool {
	return d.VolumeGroup == "" && d.OwnerUID == "" && d.Digest != "" && Made(d, d.PVUUID, ownerUID)
}

// Made reports whether a UUID is one that an agent gives a physical volume of the owner on the device, under any of its names.
func Made(d decide.Device, uuid, ownerUID string) bool {
	return pvuuid.Is(uuid, ownerUID, hardware(d), names(d)...)
}

// Future returns the UUID that the physical volume of the owner on the device has once the device is in a group: the one that is there
// already, if a call for the owner was interrupted, or how the one begins that the agent is going to give it. See pvuuid.Fits.
func Future(d decide.Device, ownerUID string) string {
	if Orphan(d, ownerUID) {
		return d.PVUUID
	}
	return pvuuid.Stem(ownerUID, hardware(d), d.Path)
}

// Futures returns what Future may have said of the device: links come and go with updates of udev, and another of them may have been the
// stable path then. Controllers before this one announced whole UUIDs.
func Futures(d decide.Device, ownerUID string) []string {
	var out []string
	for _, name := range names(d) {
		out = append(out, pvuuid.Stem(ownerUID, hardware(d), name), pvuuid.First(ownerUID, hardware(d), name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func hardware(d decide.Device) pvuuid.Disk {
	return pvuuid.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes}
}

// names are all names of a device, the stable one first.
func names(d decide.Device) []string {
	return append([]string{d.Path, pvuuid.Kernel(d.KernelName)}, d.Links...)
}
