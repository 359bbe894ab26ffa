package sharedlun

import "time"

// Credential is by what the target lets a node write.
type Credential struct {
	// Key that the node was granted for its boot. Unfenced is true on a target without reservations: nobody has a key.
	Key      uint64
	Unfenced bool
}

// Mandate is by what a node makes one change of the group.
type Mandate struct {
	Credential
	// Epoch that the controller gave the node.
	Epoch uint64
	// Timeout is when LVM is ended.
	Timeout time.Duration
}

// Change is one change of the group: exactly one of its fields is set.
type Change struct {
	TakeOver bool
	Create   *Create
	Grow     *Grow
	Remove   *Remove
	Hold     *Hold
	Leave    *Hold
	Release  *Release
	Ready    *Ready
	Forget   *Forget
	Making   *Hold
	Used     *Hold
	Copied   *Copied
	Void     *Void
}

// Create makes a volume of which nothing is ready.
type Create struct {
	Name      string
	SizeBytes int64
	Tags      []string
	// HeldBy is the node that has the volume from its beginning; empty for none.
	HeldBy string
	// Origin is the volume that the new one is a copy of; the zero value for one that is none. No node may hold that volume, and none gets it until the copy is whole.
	Origin Origin
	// Snapshot makes the copy a snapshot.
	Snapshot bool
}

// Copied says that the first bytes of a volume that is being copied have reached the LUN.
type Copied struct {
	Name, UUID string
	Bytes      int64
}

// Void says that nobody wants a volume any more that is being copied: it never becomes whole.
type Void struct {
	Name, UUID string
}

// Grow makes a volume larger. What is new is not ready.
type Grow struct {
	Name, UUID string
	SizeBytes  int64
}

// Remove removes a volume that no node holds, and that none can read any more.
type Remove struct {
	Name, UUID string
	// Boots are those that the readers of the volume report now.
	Boots []Boot
}

// Hold gives a volume to a node, or marks it as leaving that node. Making lets the node that holds a volume make its first filesystem, and Used says that pods
// of that node may see the volume from now on.
type Hold struct {
	Name, UUID, Node string
	// ReadyBytes is how many of its first bytes may be seen from the same moment on at which a volume is marked as leaving; 0 leaves that as it is. Only a Leave has it.
	ReadyBytes int64
}

// Release takes a volume that is leaving from its node.
type Release struct {
	Hold
	// FencedBootID is the boot of the node, if it is fenced and did not say that its device is gone: it becomes a reader. Empty otherwise.
	FencedBootID string
}

// Ready says that the first bytes of a volume may be seen.
type Ready struct {
	Name, UUID string
	Bytes      int64
}

// Forget takes nodes off the readers of a volume: a person vouched that those boots have ended.
type Forget struct {
	Name, UUID string
	// Boots are exactly those that are taken off.
	Boots []Boot
}
