// Package disk decides which devices of a host a storage takes. Ownership that is written on the disks comes first, then what the spec
// chooses. A device that any fact speaks against is not taken. The package is pure, and knows no single backend.
package disk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Input is what the choice is made on.
type Input struct {
	// Host that the devices are plugged into.
	Host string
	// Claim of the Cluster that the choice is made for.
	Claim Claim
	// Node is what the host's agent reports.
	Node decide.Node
	// Group of the Cluster on the host; nil when there is none.
	Group *decide.Group
	// Now is the time on the clock of decide.Device.Since.
	Now time.Time
	// Rivals are the claims of the other Clusters.
	Rivals []Claim
	// Retired are the devices of the host that a person gave up.
	Retired []Retired
	// Recorded are the devices that are on record as those of objects that are no storage.
	Recorded []Record
	// Unread says why nobody knows these; empty when they are known. It is told of each device that is not taken for that alone.
	Unread string
	// Elsewhere reports whether a path exists, or may exist, on another host of the Cluster.
	Elsewhere func(path string) bool
}

// Retired is a device that no storage takes any more, and the name of the Member that says so.
type Retired struct {
	Member string
	Device v1alpha1.RetiredDevice
}

// Choice is what becomes of the devices of a host.
type Choice struct {
	// Owned are in the Cluster's group already.
	Owned []decide.Device
	// Take are clean and chosen.
	Take []decide.Device
	// Wipe are chosen, not clean, and may be wiped.
	Wipe []decide.Device
	// Release are in the group, are not chosen any more and hold no data.
	Release []decide.Device
	// Problems are what the spec asks for by name and does not get.
	Problems []Refused
	// Refused are the other devices that the selector would choose if they were clean.
	Refused []Refused
	// Passed are clean devices that are not taken, as they are too young, came too late or do not go with the others.
	Passed []Refused
	// Unread is true when a device is refused only because nobody knows what is on record.
	Unread bool
	// Wake is when the first of the passed devices is old enough; 0 when none waits for that.
	Wake time.Duration
}

// Refused is a device that is not taken, with the reason.
type Refused struct {
	// Path of the device, as the spec has it or as it is shown.
	Path string
	// Reason is a reason of a condition: DeviceNotFound, DeviceRefused or DeviceConflict.
	Reason string
	// Message says why, one sentence.
	Message string
}

// String returns the path and the message.
func (r Refused) String() string { return r.Path + ": " + r.Message }

// Select makes the choice.
func Select(in Input) Choice {
	var c Choice
	for _, d := range in.Node.Devices {
		if in.Group != nil && in.Group.Holds(d) {
			c.keep(in, d)
			continue
		}
		if in.Claim.matches(d) {
			c.judge(in, d)
		}
	}
	c.matchSectors(in)
	c.await(in)
	if len(c.Release) > 0 && len(c.Release) == len(c.Owned) && len(c.Take) == 0 {
		c.keepLast()
	}
	c.missingPaths(in)
	c.uselessConsents(in)
	return c
}

// keep sorts a device of the group.
func (c *Choice) keep(in Input, d decide.Device) {
	c.Owned = append(c.Owned, d)
	if !in.Claim.unwanted(d) {
		return
	}
	for _, p := range in.Group.PVs {
		if !d.Is(p.Path) {
			continue
		}
		if p.FreeBytes == p.SizeBytes && !in.Group.Partial {
			c.Release = append(c.Release, d)
			return
		}
	}
	c.Problems = append(c.Problems, Refused{
		d.Path, v1alpha1.ReasonVolumesExist,
		"is not listed under devices.paths any more, but holds volumes: it stays until they are deleted",
	})
}

// keepLast keeps every device of a group that would be left without any.
func (c *Choice) keepLast() {
	for _, d := range c.Release {
		c.Problems = append(c.Problems, Refused{
			d.Path, v1alpha1.ReasonDeviceRefused,
			"is not listed under devices.paths any more, but no other device is there to keep the volume group",
		})
	}
	c.Release = nil
}

// judge sorts a device that the selector matches and that is not in the group.
func (c *Choice) judge(in Input, d decide.Device) {
	if member, ok := in.retired(d); ok {
		c.refuse(in, d, v1alpha1.ReasonDeviceRefused, fmt.Sprintf("is retired by Member %s, which lists it under spec.retire", member))
		return
	}
	if holder := HeldBy(in.Recorded, in.Host, d); holder != "" {
		c.refuse(in, d, v1alpha1.ReasonDeviceConflict, holder)
		return
	}
	if owner, ok := in.owner(d); ok {
		c.refuse(in, d, v1alpha1.ReasonDeviceConflict, owner)
		return
	}
	if d.Takeable() && !in.Claim.asks(d) {
		c.refuse(in, d, v1alpha1.ReasonDeviceRefused, fmt.Sprintf(
			"is attached over %[1]s: such disks are taken only if devices.transports lists %[1]s, or devices.paths the disk", d.Transport))
		return
	}
	if leftBehind(in, d) {
		c.choose(in, d, &c.Take)
		return
	}
	if d.Takeable() {
		c.welcome(in, d)
		return
	}
	consent, ok := in.Claim.consent(d)
	switch {
	case !ok:
		c.refuse(in, d, v1alpha1.ReasonDeviceRefused, Why(d))
	case consent.Serial != "" && consent.Serial != d.Serial:
		c.Problems = append(c.Problems, Refused{d.Path, v1alpha1.ReasonDeviceRefused, fmt.Sprintf(
			"devices.wipe names the disk with serial number %q, the one there now has %q: it is not wiped", consent.Serial, d.Serial)})
	case !d.Wipeable:
		c.Problems = append(c.Problems, Refused{d.Path, v1alpha1.ReasonDeviceRefused, "cannot be wiped: " + Why(d)})
	default:
		c.choose(in, d, &c.Wipe)
	}
}

// choose puts a device among those that are taken, or wiped. While nobody knows what is on record it may be anybody's.
func (c *Choice) choose(in Input, d decide.Device, among *[]decide.Device) {
	if in.Unread == "" {
		*among = append(*among, d)
		return
	}
	c.Unread = true
	c.refuse(in, d, v1alpha1.ReasonDeviceConflict, "may be on record as a device of a GlusterNode, which nobody knows: "+in.Unread)
}

// welcome takes a clean device, unless it came too late or is too young.
func (c *Choice) welcome(in Input, d decide.Device) {
	if in.Claim.late(d) {
		c.pass(in, d, lateText)
		return
	}
	why, left := in.tooYoung(d)
	if why == "" {
		c.choose(in, d, &c.Take)
		return
	}
	c.pass(in, d, why)
	if left > 0 && (c.Wake == 0 || left < c.Wake) {
		c.Wake = left
	}
}

// retired names the Member that gives a device up.
func (in Input) retired(d decide.Device) (string, bool) {
	for _, r := range in.Retired {
		if d.Retired(r.Device) {
			return r.Member, true
		}
	}
	return "", false
}

// leftBehind reports whether nothing speaks against a device but that an interrupted call for this Cluster has begun with it.
func leftBehind(in Input, d decide.Device) bool {
	return len(d.Refusals) == 1 && d.RefusedFor(v1alpha1.RefusalLVM) && Orphan(d, in.Claim.UID)
}

// refuse notes a device that is not taken. It is a problem when the spec names it.
func (c *Choice) refuse(in Input, d decide.Device, reason, message string) {
	r := Refused{d.Path, reason, message}
	if in.Claim.names(d) {
		c.Problems = append(c.Problems, r)
		return
	}
	if d.RefusedFor(v1alpha1.RefusalVirtual) || d.RefusedFor(v1alpha1.RefusalPartition) {
		// Not disks at all: listing every loop device and every partition would hide what matters.
		return
	}
	if in.toldBefore(d) {
		return
	}
	c.Refused = append(c.Refused, r)
}

// toldBefore reports whether a device is another path to a disk that was told of already.
func (in Input) toldBefore(d decide.Device) bool {
	return slices.ContainsFunc(in.Node.PathsBefore(d), in.Claim.matches)
}

// missingPaths notes the named paths that no device has.
func (c *Choice) missingPaths(in Input) {
	if in.Claim.Selector == nil {
		return
	}
	for _, p := range in.Claim.Selector.Paths {
		if _, ok := in.Node.Device(string(p)); ok {
			continue
		}
		if strings.HasPrefix(string(p), "/dev/disk/by-id/") && in.Elsewhere != nil && in.Elsewhere(string(p)) {
			// The path names one disk in the world, and that is plugged in elsewhere.
			continue
		}
		c.Problems = append(c.Problems, Refused{string(p), v1alpha1.ReasonDeviceNotFound, "no such device on this host"})
	}
}

// uselessConsents notes the consents that cannot have an effect.
func (c *Choice) uselessConsents(in Input) {
	if in.Claim.Selector == nil {
		return
	}
	for _, w := range in.Claim.Selector.Wipe {
		if string(w.Host) != in.Host {
			continue
		}
		d, ok := in.Node.Device(string(w.Path))
		switch {
		case !ok && !slices.ContainsFunc(c.Problems, func(r Refused) bool { return r.Path == string(w.Path) }):
			c.Problems = append(c.Problems, Refused{
				string(w.Path), v1alpha1.ReasonDeviceNotFound,
				"is listed under devices.wipe, but there is no such device on this host",
			})
		case ok && !in.Claim.matches(d) && (in.Group == nil || !in.Group.Holds(d)):
			c.Problems = append(c.Problems, Refused{
				string(w.Path), v1alpha1.ReasonDeviceRefused,
				"is listed under devices.wipe, but the rest of spec.devices does not choose it",
			})
		}
	}
}
