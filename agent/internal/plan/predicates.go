package plan

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/refusal"
	"quarry.storage/quarry/pkg/systemid"
)

// swapMount is how Device.Mounts names swap space.
const swapMount = "[swap]"

func unreadable(d Device, _ Policy) string {
	if len(d.Unreadable) == 0 || d.IscsiLUN {
		// Of the LUN of an Iscsi is known what is on it: foreignLVM refuses it. As unreadable it would hide groups, for the controller, too.
		return ""
	}
	return "These facts could not be read: " + strings.Join(d.Unreadable, "; ") + "."
}

func suspended(d Device, _ Policy) string {
	if !d.Suspended {
		return ""
	}
	return "The device is suspended; reading it would block."
}

func partition(d Device, _ Policy) string {
	if d.Type != "partition" {
		return ""
	}
	return "The device is a partition; only whole disks are taken."
}

func virtual(d Device, p Policy) string {
	switch {
	case d.Type == "disk", d.Type == "partition", slices.Contains(p.AllowTypes, d.Type):
		return ""
	case d.Type == "":
		return "The kind of the device is not known."
	}
	return fmt.Sprintf("The device is of kind %q; only disks are taken.", d.Type)
}

func removable(d Device, _ Policy) string {
	if !d.Removable && d.Type != "rom" && d.Type != "floppy" {
		return ""
	}
	return "The device, or its medium, is removable."
}

func readOnly(d Device, _ Policy) string {
	if !d.ReadOnly {
		return ""
	}
	return "The device cannot be written."
}

func zoned(d Device, _ Policy) string {
	if d.Zoned == "" {
		return ""
	}
	return fmt.Sprintf("The device is zoned (%s); volumes need a disk that can be written in any order.", d.Zoned)
}

func tooSmall(d Device, p Policy) string {
	if d.SizeBytes > 0 && d.SizeBytes >= p.MinSizeBytes {
		return ""
	}
	return fmt.Sprintf("The device has %d bytes; at least %d are wanted.", d.SizeBytes, p.MinSizeBytes)
}

// noIdentity wants something that tells the device from every other one also after it was moved or the node booted: wwn,
// serial or a link by path. Where the configuration allows the kind of the device by name, its kernel name is enough.
func noIdentity(d Device, p Policy) string {
	switch {
	case d.WWN != "", d.Serial != "":
		return ""
	case hasStableLink(d), slices.Contains(p.AllowTypes, d.Type):
		return ""
	}
	return "The device has neither a serial number nor a WWN, and no stable link leads to it."
}

// hasStableLink trusts the stable path that was chosen, and any link by path; other links by id may follow the content.
func hasStableLink(d Device) bool {
	return strings.HasPrefix(d.Path, "/dev/disk/by-id/") ||
		slices.ContainsFunc(append([]string{d.Path}, d.Links...), func(link string) bool {
			return strings.HasPrefix(link, "/dev/disk/by-path/")
		})
}

func mounted(d Device, _ Policy) string {
	var places []string
	for _, m := range d.Mounts {
		if m != swapMount {
			places = append(places, m)
		}
	}
	switch len(places) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("The device is mounted at %s.", places[0])
	case 2:
		return fmt.Sprintf("The device is mounted at %s and 1 other place.", places[0])
	}
	return fmt.Sprintf("The device is mounted at %s and %d other places.", places[0], len(places)-1)
}

func swap(d Device, _ Policy) string {
	if slices.Contains(d.Mounts, swapMount) {
		return "The device is in use as swap space."
	}
	return describe(d, refusal.Swap, "area")
}

func held(d Device, _ Policy) string {
	if len(d.Holders) == 0 {
		return ""
	}
	return fmt.Sprintf("The device is in use by %s.", strings.Join(d.Holders, ", "))
}

func owned(d Device, _ Policy) string {
	if d.OwnerUID == "" {
		return ""
	}
	return fmt.Sprintf("The device belongs to group %q of the Cluster with UID %s.", d.Group, d.OwnerUID)
}

func otherNode(d Device, _ Policy) string {
	if d.OtherNode == "" {
		return ""
	}
	return fmt.Sprintf("The device belongs to group %q of %s: it was moved here, or both see it.", d.Group, systemid.Describe(d.OtherNode))
}

func foreignLVM(d Device, _ Policy) string {
	switch {
	case d.OwnerUID != "":
		return ""
	case d.IscsiLUN:
		return fmt.Sprintf("The device is the LUN of an Iscsi, with the volume group of that, and cannot be read now (%s).", strings.Join(d.Unreadable, "; "))
	case d.Group != "":
		return fmt.Sprintf("The device is a physical volume of the LVM group %q.", d.Group)
	case d.PVUUID != "":
		return fmt.Sprintf("The device is an LVM physical volume (uuid %s) in no group.", d.PVUUID)
	}
	return describe(d, refusal.LVM, "")
}

func partitionTable(d Device, _ Policy) string {
	message := describe(d, refusal.PartitionTable, "partition table")
	switch n := len(d.Partitions); {
	case n == 0:
		return message
	case message == "":
		return fmt.Sprintf("The device has %d partitions: %s.", n, strings.Join(d.Partitions, ", "))
	default:
		return strings.TrimSuffix(message, ".") + fmt.Sprintf(" with the partitions %s.", strings.Join(d.Partitions, ", "))
	}
}

func raid(d Device, _ Policy) string { return describe(d, refusal.RAID, "mark") }

func multipath(d Device, _ Policy) string {
	if d.UdevTags["DM_MULTIPATH_DEVICE_PATH"] == "1" {
		return "The device is a path of a multipath device."
	}
	return describe(d, refusal.Multipath, "mark")
}

func twoPaths(d Device, p Policy) string {
	if len(d.Paths) == 0 || multipath(d, p) != "" {
		return ""
	}
	return fmt.Sprintf("The device is the same disk as %s (WWN %s) over another path: set up multipath on the node, or leave one path.",
		strings.Join(d.Paths, ", "), d.WWN)
}

func zfs(d Device, _ Policy) string { return describe(d, refusal.ZFS, "label") }

func bcache(d Device, _ Policy) string { return describe(d, refusal.Bcache, "superblock") }

func encrypted(d Device, _ Policy) string { return describe(d, refusal.Encrypted, "header") }

func ceph(d Device, _ Policy) string { return describe(d, refusal.Ceph, "label") }

func filesystem(d Device, _ Policy) string {
	return describe(d, refusal.Filesystem, "filesystem")
}

func otherSignature(d Device, _ Policy) string {
	return describe(d, refusal.Signature, "signature")
}

func wipeInterrupted(d Device, _ Policy) string {
	if d.Wipe == nil {
		return describe(d, refusal.WipeInterrupted, "")
	}
	if len(d.Wipe.Later) > 0 {
		return fmt.Sprintf("A wipe of the device, approved earlier, has not finished, and since then the device got what it does not cover: %s.",
			strings.Join(d.Wipe.Later, ", "))
	}
	return "A wipe of the device, approved earlier, has not finished."
}

// unknownData speaks only where nothing else explains why the device is not empty.
func unknownData(d Device, _ Policy) string {
	explained := len(marks(d)) > 0 || len(d.Partitions) > 0 || d.PVUUID != "" || d.Wipe != nil
	if explained || d.HeadTailZero || content(d) == "" {
		return ""
	}
	return "The device is not empty, and no known format was recognised on it."
}

// settling speaks only where nothing else does, for only then a device is tested.
func settling(d Device) string {
	if d.Use != Untested {
		return ""
	}
	return "Something happened to the device a moment ago; it can be taken once it has been quiet for a while."
}

func busy(d Device, _ Policy) string {
	if d.Use != Used {
		return ""
	}
	return refusal.InUse(d.Users)
}
