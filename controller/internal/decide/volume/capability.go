package volume

import (
	"slices"
	"strings"
)

// Capability is one way in which a volume is used.
type Capability struct {
	// Block is true for a raw device, Mount for a filesystem: exactly one of them.
	Block, Mount bool
	// FSType of the filesystem; the driver chooses one when it is empty.
	FSType string
	// Mode says from how many nodes the volume is used, and SingleNode whether that is one.
	Mode       string
	SingleNode bool
}

// Offer is what the volumes of a driver are capable of.
type Offer struct {
	// Block is true when they can be raw devices.
	Block bool
	// Shared is true when they can be used on several nodes at once.
	Shared bool
	// Filesystems that they can have.
	Filesystems []string
}

// CheckAll refuses capabilities that are not offered. At least one is required.
func (o Offer) CheckAll(all []Capability) error {
	if len(all) == 0 {
		return Refuse(Invalid, "no volume capability is given")
	}
	for _, c := range all {
		if err := o.Check(c); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses a capability that is not offered.
func (o Offer) Check(c Capability) error {
	switch {
	case c.Block == c.Mount:
		return Refuse(Invalid, "a volume capability must be either block or mount")
	case c.Mode == "":
		return Refuse(Invalid, "a volume capability has no access mode")
	case !o.Shared && !c.SingleNode:
		return Refuse(Invalid, "access mode %s: the volumes of this driver are used on one node only", c.Mode)
	case c.Block && !o.Block:
		return Refuse(Invalid, "the volumes of this driver are directories: volumeMode Block is not possible")
	case c.Block:
		return nil
	}
	return o.CheckFS(c.FSType)
}

// CheckFS refuses a filesystem that is not offered; an empty name is no wish.
func (o Offer) CheckFS(name string) error {
	if name == "" || slices.Contains(o.Filesystems, name) {
		return nil
	}
	return Refuse(Invalid, "filesystem %s is not one of %s", Quote(name), strings.Join(o.Filesystems, ", "))
}
