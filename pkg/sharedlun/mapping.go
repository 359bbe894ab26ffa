package sharedlun

// Part is what of a volume a device on a node shows.
type Part int

const (
	// PartShown is what may be seen of the volume: its own device.
	PartShown Part = iota
	// PartNew is what is being zeroed of the volume, or copied to. Nobody sees it.
	PartNew
	// PartSource is what the volume is copied from. It is for reading only, and nobody sees it.
	PartSource
)

// Mapping is a device of a volume on a node.
type Mapping struct {
	VolumeUUID, Device string
	Part               Part
	Ranges             []Range
	// InUse is true while it is open, mounted or held.
	InUse bool
	// Cut is true when it returns errors, Suspended when it holds back whoever reads or writes, as a call leaves it that was cut off.
	Cut, Suspended bool
}

// Reaches reports whether I/O through the device reaches the LUN, or may do so later: one that only returns errors, and holds nothing back, does not.
func (m Mapping) Reaches() bool { return !m.Cut || m.Suspended }
