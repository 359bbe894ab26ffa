package volume

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultFS is the filesystem of volumes for which none was asked for.
const DefaultFS = "ext4"

var filesystems = []string{DefaultFS, "xfs", "btrfs"}

// Capability is one way in which a volume is going to be used.
type Capability struct {
	// Block is true for a raw device, Mount for a filesystem: exactly one of them.
	Block, Mount bool
	// FSType of the filesystem; DefaultFS when empty.
	FSType string
	// Mode says from how many nodes it is used, and SingleNode whether that is one.
	Mode       string
	SingleNode bool
}

// CheckCapabilities says whether a volume can be used in all those ways.
func CheckCapabilities(all []Capability) error {
	if len(all) == 0 {
		return refuse(Invalid, "no volume capability is given")
	}
	for _, c := range all {
		if err := CheckCapability(c); err != nil {
			return err
		}
	}
	return nil
}

// CheckCapability says whether a volume can be used in that way.
func CheckCapability(c Capability) error {
	switch {
	case c.Block == c.Mount:
		return refuse(Invalid, "a volume capability must be either block or mount")
	case c.Mode == "":
		return refuse(Invalid, "a volume capability has no access mode")
	case !c.SingleNode:
		return refuse(Invalid, "access mode %s: local volumes are used on one node only", c.Mode)
	case c.Block:
		return nil
	}
	return checkFS(c.FSType)
}

func checkFS(name string) error {
	if name == "" || slices.Contains(filesystems, name) {
		return nil
	}
	return refuse(Invalid, "filesystem %s is not one of %s", quote(name), strings.Join(filesystems, ", "))
}

// quote makes text from a request fit for a message.
func quote(s string) string {
	const limit = 64
	if len(s) > limit {
		return fmt.Sprintf("%q…", s[:limit])
	}
	return fmt.Sprintf("%q", s)
}
