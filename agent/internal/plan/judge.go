package plan

import "quarry.storage/quarry/pkg/refusal"

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

// predicate refuses a device for one reason. It answers the sentence to show, empty when it has nothing against the device.
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
