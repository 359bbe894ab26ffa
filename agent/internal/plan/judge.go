package plan

import "quarry.storage/quarry/pkg/api/v1alpha1"

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
	{v1alpha1.RefusalUnreadable, unreadable},
	{v1alpha1.RefusalSuspended, suspended},
	{v1alpha1.RefusalPartition, partition},
	{v1alpha1.RefusalVirtual, virtual},
	{v1alpha1.RefusalRemovable, removable},
	{v1alpha1.RefusalReadOnly, readOnly},
	{v1alpha1.RefusalTooSmall, tooSmall},
	{v1alpha1.RefusalNoIdentity, noIdentity},
	{v1alpha1.RefusalMounted, mounted},
	{v1alpha1.RefusalSwap, swap},
	{v1alpha1.RefusalHeld, held},
	{v1alpha1.RefusalOwned, owned},
	{v1alpha1.RefusalLVM, foreignLVM},
	{v1alpha1.RefusalPartitionTable, partitionTable},
	{v1alpha1.RefusalRAID, raid},
	{v1alpha1.RefusalMultipath, multipath},
	{v1alpha1.RefusalZFS, zfs},
	{v1alpha1.RefusalBcache, bcache},
	{v1alpha1.RefusalEncrypted, encrypted},
	{v1alpha1.RefusalCeph, ceph},
	{v1alpha1.RefusalFilesystem, filesystem},
	{v1alpha1.RefusalSignature, otherSignature},
	{v1alpha1.RefusalWipeInterrupted, wipeInterrupted},
	{v1alpha1.RefusalUnknownData, unknownData},
	{v1alpha1.RefusalBusy, busy},
}

// Judge lists every reason why a device is not clean; a device that is clean has none. A fact that could not be read is a
// reason, and a device about which the facts are not complete is refused even when nothing speaks against it.
func Judge(d Device, p Policy) []Refusal {
	var out []Refusal
	for _, pr := range predicates {
		if message := pr.check(d, p); message != "" {
			out = append(out, Refusal{Reason: pr.reason, Message: message})
		}
	}
	if len(out) == 0 && Digest(d) == "" {
		out = append(out, Refusal{v1alpha1.RefusalUnreadable, "The content of the device was not read."})
	}
	return out
}

// wipeable are the refusals that the caller's consent to a wipe overrules, because the wipe removes their cause. Every other one,
// whatever it is called, stays a reason not to touch the device; see unwipeable for swap space and physical volumes.
var wipeable = map[string]bool{
	v1alpha1.RefusalPartitionTable:  true,
	v1alpha1.RefusalFilesystem:      true,
	v1alpha1.RefusalRAID:            true,
	v1alpha1.RefusalZFS:             true,
	v1alpha1.RefusalBcache:          true,
	v1alpha1.RefusalEncrypted:       true,
	v1alpha1.RefusalCeph:            true,
	v1alpha1.RefusalSignature:       true,
	v1alpha1.RefusalUnknownData:     true,
	v1alpha1.RefusalWipeInterrupted: true,
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
