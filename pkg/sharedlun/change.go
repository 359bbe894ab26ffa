package sharedlun

import "time"

// Writer is what a change needs beside the group.
type Writer struct {
	// Epoch that the controller gave this node.
	Epoch uint64
	// Key that this node has on the LUN. Unfenced is true for a target without reservations: no key is looked for.
	Key      uint64
	Unfenced bool
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
	Release  *Hold
	Ready    *Ready
}

// Create makes a volume of which nothing is ready.
type Create struct {
	Name      string
	SizeBytes int64
	Tags      []string
}

// Grow makes a volume larger. What is new is not ready.
type Grow struct {
	Name      string
	SizeBytes int64
}

// Remove removes a volume that no node holds.
type Remove struct {
	Name, UUID string
}

// Hold gives a volume to a node, marks it as leaving that node, or takes it away.
type Hold struct {
	Name, Node string
}

// Ready says that the first bytes of a volume may be seen.
type Ready struct {
	Name  string
	Bytes int64
}
