// Package filesystem names the filesystems that volumes of devices can have, and their limits. The agent makes them, and the controller
// refuses early what the agent would refuse.
package filesystem

// The filesystems.
const (
	Ext4  = "ext4"
	XFS   = "xfs"
	Btrfs = "btrfs"
	// Default is made where a request names none.
	Default = Ext4
)

// least are the sizes in bytes below which mkfs of xfsprogs 6 and btrfs-progs 6, as the agent calls it, refuses a device.
var least = map[string]int64{XFS: 300 << 20, Btrfs: 109 << 20}

// Names returns the filesystems; the default one is the first.
func Names() []string { return []string{Ext4, XFS, Btrfs} }

// Least returns the size in bytes of the smallest device that a filesystem can be made on; 0 when a single extent does.
func Least(name string) int64 { return least[name] }
