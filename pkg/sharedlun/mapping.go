package sharedlun

import "slices"

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

// Shows reports whether the device shows exactly the ready part of a volume.
func (m Mapping) Shows(v Volume) bool {
	return !m.Cut && !m.Suspended && slices.Equal(Merge(m.Ranges), Merge(Front(v.Ranges, v.ReadyBytes)))
}

// Merge joins ranges of which one begins where the other ends.
func Merge(in []Range) []Range {
	var out []Range
	for _, r := range in {
		if n := len(out); n > 0 && out[n-1].Start+out[n-1].Size == r.Start {
			out[n-1].Size += r.Size
			continue
		}
		out = append(out, r)
	}
	return out
}

// Front returns the ranges of the first bytes of a volume.
func Front(ranges []Range, bytes int64) []Range {
	var out []Range
	for _, r := range ranges {
		if r.Size = min(bytes, r.Size); r.Size > 0 {
			out = append(out, r)
		}
		bytes -= r.Size
	}
	return out
}
