package v1alpha1

import "quarry.storage/quarry/pkg/refusal"

// Reasons why a device is not taken, as StorageNode shows them. Package refusal tells what each means.
const (
	RefusalUnreadable      = refusal.Unreadable
	RefusalVirtual         = refusal.Virtual
	RefusalPartition       = refusal.Partition
	RefusalRemovable       = refusal.Removable
	RefusalReadOnly        = refusal.ReadOnly
	RefusalZoned           = refusal.Zoned
	RefusalTooSmall        = refusal.TooSmall
	RefusalPartitionTable  = refusal.PartitionTable
	RefusalFilesystem      = refusal.Filesystem
	RefusalSwap            = refusal.Swap
	RefusalMounted         = refusal.Mounted
	RefusalHeld            = refusal.Held
	RefusalLVM             = refusal.LVM
	RefusalOwned           = refusal.Owned
	RefusalOtherNode       = refusal.OtherNode
	RefusalRAID            = refusal.RAID
	RefusalMultipath       = refusal.Multipath
	RefusalTwoPaths        = refusal.TwoPaths
	RefusalSharedDisk      = refusal.SharedDisk
	RefusalZFS             = refusal.ZFS
	RefusalBcache          = refusal.Bcache
	RefusalEncrypted       = refusal.Encrypted
	RefusalCeph            = refusal.Ceph
	RefusalSignature       = refusal.Signature
	RefusalUnknownData     = refusal.UnknownData
	RefusalWipeInterrupted = refusal.WipeInterrupted
	RefusalBusy            = refusal.Busy
	RefusalSettling        = refusal.Settling
	RefusalNoIdentity      = refusal.NoIdentity
	RefusalSuspended       = refusal.Suspended
)
