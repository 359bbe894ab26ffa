package decide

import (
	"fmt"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Mapped is a device of a volume as the kernel has it.
type Mapped struct {
	VolumeUUID string
	// Part is what of the volume it shows. All but sharedlun.PartShown are of a zeroing or a copying, and nobody sees them.
	Part sharedlun.Part
	// Path of the device; empty when it has no node.
	Path string
	// Ranges of the live table. They count only if Linear is true.
	Ranges []sharedlun.Range
	// Lun is the number of the device that the ranges lie on, "8:16".
	Lun string
	// Live is true when a table is live, Linear when it consists of ranges of one device, and Cut when it only returns errors.
	Live, Linear, Cut bool
	// Suspended is true when the device holds back whoever reads or writes.
	Suspended bool
	// Pending is true when a table is loaded that is not live: a call was cut off.
	Pending bool
	// InUse is true while it is open, mounted or held.
	InUse bool
}

// Action is what a device needs.
type Action int

const (
	// Keep the device as it is.
	Keep Action = iota
	// Load the table, and make it live. The device is made if it is not there.
	Load
	// Renew removes the device and makes it anew.
	Renew
)

// Mine returns a volume as the LUN has it now. It refuses one that the group does not give to a node, or gives other ranges than the caller decided on.
func Mine(seen sharedlun.Group, v sharedlun.Volume, node string) (sharedlun.Volume, error) {
	on := seen.Volume(v.Name)
	switch {
	case on == nil || on.UUID != v.UUID:
		return v, fmt.Errorf("volume %s (%s): %w", v.Name, v.UUID, sharedlun.ErrNotFound)
	case on.HeldBy != node:
		return v, fmt.Errorf("%w: volume %s is held by node %q, and this is %s", sharedlun.ErrHeld, v.Name, on.HeldBy, node)
	case on.Leaving:
		return v, fmt.Errorf("%w: volume %s is being taken from this node", sharedlun.ErrHeld, v.Name)
	case !equal(sharedlun.Merge(on.Ranges), sharedlun.Merge(v.Ranges)):
		return v, fmt.Errorf("%w: volume %s lies elsewhere than the request says", sharedlun.ErrMoved, v.Name)
	}
	return *on, nil
}

// Shown are the ranges that the device of a volume shows: those of the ready part. A volume of which nothing is ready has no device.
func Shown(v sharedlun.Volume) ([]sharedlun.Range, error) {
	if v.ReadyBytes <= 0 {
		return nil, fmt.Errorf("%w: nothing of volume %s is ready: zero it first", sharedlun.ErrMisfit, v.Name)
	}
	return sharedlun.Front(v.Ranges, v.ReadyBytes), nil
}

// Map returns what the device of a volume needs that is to have exactly these ranges, on a LUN of that number and size. m is nil when there is none.
func Map(m *Mapped, volume string, ranges []sharedlun.Range, lun string, lunBytes int64) (Action, error) {
	want := sharedlun.Merge(ranges)
	for _, r := range want {
		if r.Start > lunBytes-r.Size {
			return Keep, fmt.Errorf("%w: volume %s reaches to byte %d of a LUN of %d bytes", sharedlun.ErrMisfit, volume, r.Start+r.Size, lunBytes)
		}
	}
	switch {
	case m == nil || !m.Live:
		// A device without a table has no content: whoever has it open reads nothing.
		return Load, nil
	case m.Linear && m.Lun == lun && begins(want, sharedlun.Merge(m.Ranges)):
		if equal(want, sharedlun.Merge(m.Ranges)) && !m.Suspended && !m.Pending && m.Path != "" {
			return Keep, nil
		}
		return Load, nil
	case m.InUse:
		return Keep, misfit(m, volume, want, lun)
	case m.Linear && m.Lun == lun:
		return Keep, misfit(m, volume, want, lun)
	}
	// It ends in errors, or on a device that is gone: nobody has it open, and it holds nothing.
	return Renew, nil
}

func misfit(m *Mapped, volume string, want []sharedlun.Range, lun string) error {
	switch {
	case m.Cut:
		return fmt.Errorf("%w: the device of volume %s returns errors, and is still open: it was cut when this node was fenced, or when another LUN was in the place of the recorded one. End the pods that use it", sharedlun.ErrMisfit, volume)
	case !m.Linear:
		return fmt.Errorf("%w: the device of volume %s has a table of others, and is open", sharedlun.ErrMisfit, volume)
	case m.Lun != lun:
		return fmt.Errorf("%w: the device of volume %s is open, and stands on device %s; the LUN is %s by now", sharedlun.ErrMisfit, volume, m.Lun, lun)
	}
	return fmt.Errorf("%w: the device of volume %s would move or shrink: it has %v, wanted is %v", sharedlun.ErrMisfit, volume, m.Ranges, want)
}

// begins reports whether a table begins with all of another one. Both are merged.
func begins(all, beginning []sharedlun.Range) bool {
	if len(beginning) > len(all) {
		return false
	}
	for i, r := range beginning {
		last := i == len(beginning)-1
		if all[i].Start != r.Start || all[i].Size < r.Size || all[i].Size > r.Size && !last {
			return false
		}
	}
	return true
}

func equal(a, b []sharedlun.Range) bool { return begins(a, b) && begins(b, a) }

// Zero refuses to zero a volume that may hold something, or is not this node's: seen is the group as the LUN has it now, v the volume as the caller knows it,
// and m its device on the node; nil when there is none. A device that shows a part of what is to be zeroed is a refusal.
func Zero(seen sharedlun.Group, v sharedlun.Volume, node string, m *Mapped) error {
	on, err := Mine(seen, v, node)
	switch {
	case err != nil:
		return err
	case on.ReadyBytes != v.ReadyBytes || on.SizeBytes != v.SizeBytes:
		return fmt.Errorf("%w: volume %s has %d bytes with %d ready, the request was decided on %d with %d", sharedlun.ErrMoved, v.Name,
			on.SizeBytes, on.ReadyBytes, v.SizeBytes, v.ReadyBytes)
	case !v.Unready():
		return fmt.Errorf("%w: all of volume %s is ready", sharedlun.ErrInvalid, v.Name)
	case on.Copying():
		return fmt.Errorf("%w: volume %s is a copy of %s that is being made", sharedlun.ErrMisfit, v.Name, on.Origin.Name)
	case m == nil || !m.Live || m.Cut:
		return nil
	case !m.Linear || m.Suspended || m.Pending || !begins(sharedlun.Merge(v.Ranges), sharedlun.Merge(m.Ranges)) || sum(m.Ranges) > v.ReadyBytes:
		return fmt.Errorf("%w: the device of volume %s shows more than what is ready, or has another table: map it first", sharedlun.ErrMisfit, v.Name)
	}
	return nil
}

func sum(ranges []sharedlun.Range) int64 {
	var out int64
	for _, r := range ranges {
		out += r.Size
	}
	return out
}

// Behind returns the ranges of a volume without its first bytes.
func Behind(ranges []sharedlun.Range, bytes int64) []sharedlun.Range {
	var out []sharedlun.Range
	for _, r := range ranges {
		skip := min(bytes, r.Size)
		bytes -= skip
		if skip < r.Size {
			out = append(out, sharedlun.Range{Start: r.Start + skip, Size: r.Size - skip})
		}
	}
	return out
}
