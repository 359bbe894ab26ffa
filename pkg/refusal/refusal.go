// Package refusal names the reasons why a device is not taken. The agent finds them, the controller decides on them, and users read
// them on StorageNode. A device is clean only when there is none; see the rules in docs/safety.md.
package refusal

// The reasons.
const (
	// Unreadable: a fact about the device could not be read.
	Unreadable = "Unreadable"
	// Virtual: loop, zram, ram, device-mapper, nbd, drbd and similar devices, unless the agent's configuration allows the kind.
	Virtual = "VirtualDevice"
	// Partition: a partition; only whole disks are taken.
	Partition = "Partition"
	// Removable: removable media (USB sticks, card readers, optical drives, floppies).
	Removable = "Removable"
	// ReadOnly: the device cannot be written.
	ReadOnly = "ReadOnly"
	// Zoned: a zoned disk (SMR, ZNS), host-managed or host-aware.
	Zoned = "Zoned"
	// TooSmall: smaller than the minimum.
	TooSmall = "TooSmall"
	// PartitionTable: carries a partition table (MBR, primary or backup GPT, or another), or has partitions.
	PartitionTable = "PartitionTable"
	// Filesystem: carries a filesystem.
	Filesystem = "Filesystem"
	// Swap: is, or is formatted as, swap space.
	Swap = "Swap"
	// Mounted: mounted somewhere in the host's mount namespace.
	Mounted = "Mounted"
	// Held: another device (device-mapper, md, bcache, …) is built on it.
	Held = "Held"
	// LVM: an LVM physical volume that is not ours.
	LVM = "LVMPhysicalVolume"
	// Owned: a physical volume of a Cluster of ours already.
	Owned = "Owned"
	// OtherNode: a physical volume of a group that carries the LVM system ID of another host.
	OtherNode = "OtherNode"
	// RAID: a member of a software or firmware RAID.
	RAID = "RAIDMember"
	// Multipath: a path of a multipath device.
	Multipath = "MultipathMember"
	// TwoPaths: the node sees the disk a second time, over another path, and no multipath device joins the two.
	TwoPaths = "TwoPaths"
	// SharedDisk: another node sees the same disk, by WWN, serial number and size. The controller finds it.
	SharedDisk = "SharedDisk"
	// ZFS: a member of a ZFS pool.
	ZFS = "ZFSMember"
	// Bcache: a bcache backing or caching device.
	Bcache = "Bcache"
	// Encrypted: encrypted with LUKS, BitLocker or similar.
	Encrypted = "Encrypted"
	// Ceph: a Ceph OSD.
	Ceph = "Ceph"
	// Signature: another known signature.
	Signature = "Signature"
	// UnknownData: not empty, and no known format was recognised.
	UnknownData = "UnknownData"
	// WipeInterrupted: a wipe that was approved earlier has not finished.
	WipeInterrupted = "WipeInterrupted"
	// Busy: could not be opened exclusively, or something has it open in another way: a process, a loop device, a mount of its device
	// node. The message names it where that can be told.
	Busy = "Busy"
	// Settling: something happened to it a moment ago. Nothing else speaks against it, and it is tested for users once it has been
	// quiet for a while.
	Settling = "Settling"
	// NoIdentity: no serial number, WWN or stable path tells it from another disk.
	NoIdentity = "NoIdentity"
	// Suspended: a suspended device, reading it would block.
	Suspended = "Suspended"
)
