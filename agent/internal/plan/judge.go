package plan

import (
	"fmt"

	"quarry.storage/quarry/pkg/refusal"
)

// Policy is what the agent's configuration says about devices.
type Policy struct {
	// MinSizeBytes is the size below which a device is refused.
	MinSizeBytes int64
	// AllowTypes are the kinds of virtual devices that are taken like disks: "loop", "ubd".
	AllowTypes []string
}

// Refusal is one reason why a device is not taken.
type Refusal struct {
	// Reason is one of the constants RefusalXxx of the API package.
	Reason string
	// Message is one sentence for a person.
	Message string
}

// predicate refuses a device for one reason. It returns the sentence to show, which is empty when it has nothing against the device.
type predicate struct {
	reason string
	check  func(Device, Policy) string
}

// predicates are all of them, in the order in which refusals are shown.
var predicates = []predicate{
	{refusal.Unreadable, unreadable},
	{refusal.Suspended, suspended},
	{refusal.Partition, partition},
	{refusal.Virtual, virtual},
	{refusal.Removable, removable},
	{refusal.ReadOnly, readOnly},
	{refusal.Zoned, zoned},
	{refusal.TooSmall, tooSmall},
	{refusal.NoIdentity, noIdentity},
	{refusal.Mounted, mounted},
	{refusal.Swap, swap},
	{refusal.Held, held},
	{refusal.Owned, owned},
	{refusal.OtherNode, otherNode},
	{refusal.LVM, foreignLVM},
	{refusal.PartitionTable, partitionTable},
	{refusal.RAID, raid},
	{refusal.Multipath, multipath},
	{refusal.TwoPaths, twoPaths},
	{refusal.ZFS, zfs},
	{refusal.Bcache, bcache},
	{refusal.Encrypted, encrypted},
	{refusal.Ceph, ceph},
	{refusal.Filesystem, filesystem},
	{refusal.Signature, otherSignature},
	{refusal.WipeInterrupted, wipeInterrupted},
	{refusal.UnknownData, unknownData},
	{refusal.Busy, busy},
}

// Judge lists every reason why a device is not clean; a device that is clean has none. A fact that could not be read is a
// reason, and a device about which the facts are not complete is refused even when nothing speaks against it. A device is tested for
// users only after it has been quiet for a while; until then that is the one reason.
func Judge(d Device, p Policy) []Refusal {
	var out []Refusal
	for _, pr := range predicates {
		if message := pr.check(d, p); message != "" {
			out = append(out, Refusal{Reason: pr.reason, Message: message})
		}
	}
	if len(out) == 0 && Digest(d) == "" {
		out = append(out, Refusal{refusal.Unreadable, "The content of the device was not read."})
	}
	if message := settling(d); len(out) == 0 && message != "" {
		out = append(out, Refusal{refusal.Settling, message})
	}
	return out
}

// Promising reports whether nothing speaks against a device but that it may be in use: only such a device is worth a test.
func Promising(d Device, p Policy) bool {
	d.Use = Unused
	return len(Judge(d, p)) == 0
}

// wipeable are the refusals that the caller's consent to a wipe overrules, because the wipe removes their cause. Every other one,
// whatever it is called, stays a reason not to touch the device; see unwipeable for swap space and physical volumes.
var wipeable = map[string]bool{
	refusal.PartitionTable:  true,
	refusal.Filesystem:      true,
	refusal.RAID:            true,
	refusal.ZFS:             true,
	refusal.Bcache:          true,
	refusal.Encrypted:       true,
	refusal.Ceph:            true,
	refusal.Signature:       true,
	refusal.UnknownData:     true,
	refusal.WipeInterrupted: true,
}

// obstacles are the refusals that stay when the reasons in allowed are overruled.
func obstacles(refusals []Refusal, allowed map[string]bool) []Refusal {
	var out []Refusal
	for _, r := range refusals {
		if !allowed[r.Reason] {
			out = append(out, r)
		}
	}
	return out
}

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
