package plan

import "fmt"

// formatTags are the keys of udev's database that tell what is written on a device.
var formatTags = []string{"ID_PART_TABLE_TYPE", "ID_FS_TYPE", "ID_FS_AMBIVALENT"}

// Outdated says in which way udev's database contradicts what is on a device, where udev would agree if it looked again: it missed
// the end of our work on the device, because we died before we told it or because it handled an earlier event then. Empty when there
// is nothing to mend. A device that others made something of is left alone: rules of udev may do more than to look at it.
func Outdated(d Device) string {
	if d.UdevTags == nil || len(d.Unreadable) > 0 || d.UdevTags["DM_MULTIPATH_DEVICE_PATH"] == "1" {
		// Without a record there is nothing to contradict; what could not be read contradicts nothing.
		return ""
	}
	switch {
	case d.PVUUID != "":
		return outdatedPV(d)
	case !d.HeadTailZero, len(d.Signatures) > 0, d.Wipe != nil, len(d.Mounts)+len(d.Holders)+len(d.Partitions) > 0:
		return ""
	}
	for _, key := range formatTags {
		if format := d.UdevTags[key]; format != "" {
			return fmt.Sprintf("udev knows a %s where nothing is", format)
		}
	}
	return ""
}

// outdatedPV compares a physical volume of ours, or of nobody, with udev's record.
func outdatedPV(d Device) string {
	ours := d.OwnerUID != "" || d.Group == "" && len(d.Holders) == 0
	known, uuid := d.UdevTags["ID_FS_TYPE"], d.UdevTags["ID_FS_UUID"]
	switch {
	case !ours, len(d.Signatures) != 1, known == "LVM2_member" && uuid == d.PVUUID:
		return ""
	case known == "":
		return fmt.Sprintf("udev knows nothing of the physical volume %s", d.PVUUID)
	}
	return fmt.Sprintf("udev knows a %s with uuid %q where the physical volume %s is", known, uuid, d.PVUUID)
}
