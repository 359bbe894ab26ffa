package v1alpha1

// Reasons why a device is not taken. A device is clean only when there is none; see the rules in docs/safety.md.
const (
	// RefusalUnreadable: a fact about the device could not be read.
	RefusalUnreadable = "Unreadable"
	// RefusalVirtual: loop, zram, ram, device-mapper, nbd, drbd and similar devices, unless the agent's configuration allows the kind.
	RefusalVirtual = "VirtualDevice"
	// RefusalPartition: a partition; only whole disks are taken.
	RefusalPartition = "Partition"
	// RefusalRemovable: removable media (USB sticks, card readers, optical drives, floppies).
	RefusalRemovable = "Removable"
	// RefusalReadOnly: the device cannot be written.
	RefusalReadOnly = "ReadOnly"
	// RefusalTooSmall: smaller than the minimum.
	RefusalTooSmall = "TooSmall"
	// RefusalPartitionTable: carries a partition table (MBR, primary or backup GPT, or another), or has partitions.
	RefusalPartitionTable = "PartitionTable"
	// RefusalFilesystem: carries a filesystem.
	RefusalFilesystem = "Filesystem"
	// RefusalSwap: is, or is formatted as, swap space.
	RefusalSwap = "Swap"
	// RefusalMounted: mounted somewhere in the host's mount namespace.
	RefusalMounted = "Mounted"
	// RefusalHeld: another device (device-mapper, md, bcache, …) is built on it.
	RefusalHeld = "Held"
	// RefusalLVM: an LVM physical volume that is not ours.
	RefusalLVM = "LVMPhysicalVolume"
	// RefusalOwned: a physical volume of a Cluster of ours already.
	RefusalOwned = "Owned"
	// RefusalRAID: a member of a software or firmware RAID.
	RefusalRAID = "RAIDMember"
	// RefusalMultipath: a path of a multipath device.
	RefusalMultipath = "MultipathMember"
	// RefusalZFS: a member of a ZFS pool.
	RefusalZFS = "ZFSMember"
	// RefusalBcache: a bcache backing or caching device.
	RefusalBcache = "Bcache"
	// RefusalEncrypted: encrypted with LUKS, BitLocker or similar.
	RefusalEncrypted = "Encrypted"
	// RefusalCeph: a Ceph OSD.
	RefusalCeph = "Ceph"
	// RefusalSignature: another known signature.
	RefusalSignature = "Signature"
	// RefusalUnknownData: not empty, though no known format was recognised.
	RefusalUnknownData = "UnknownData"
	// RefusalWipeInterrupted: a wipe that was approved earlier has not finished.
	RefusalWipeInterrupted = "WipeInterrupted"
	// RefusalBusy: could not be opened exclusively: something uses it.
	RefusalBusy = "Busy"
	// RefusalNoIdentity: no serial number, WWN or stable path tells it from another disk.
	RefusalNoIdentity = "NoIdentity"
	// RefusalSuspended: a suspended device, reading it would block.
	RefusalSuspended = "Suspended"
)
