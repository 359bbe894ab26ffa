package decide

import (
	"fmt"

	"quarry.storage/quarry/pkg/sharedlun"
)

// making lets the node that holds a volume make its first filesystem. What another node began is the new one's to finish: no pod saw it.
func making(g sharedlun.Group, c sharedlun.Hold) (Step, error) {
	v, err := keeps(g, c)
	switch {
	case err != nil:
		return nil, err
	case v.Used:
		return nil, fmt.Errorf("volume %s was used: %w: no filesystem is made on it any more", v.Name, sharedlun.ErrMisfit)
	case v.MakingOn == c.Node:
		return nil, nil
	}
	return Retag{Volume: v, Remove: begun(v), Add: []string{sharedlun.TagMaking + c.Node}}, nil
}

// used says that pods may see a volume. It is never taken back.
func used(g sharedlun.Group, c sharedlun.Hold) (Step, error) {
	v, err := keeps(g, c)
	if err != nil || v.Used {
		return nil, err
	}
	return Retag{Volume: v, Remove: begun(v), Add: []string{sharedlun.TagUsed}}, nil
}

// begun is the tag of a volume that says who makes its filesystem.
func begun(v sharedlun.Volume) []string {
	if v.MakingOn == "" {
		return nil
	}
	return []string{sharedlun.TagMaking + v.MakingOn}
}

// keeps is the volume that is meant, if the node has it and keeps it.
func keeps(g sharedlun.Group, c sharedlun.Hold) (sharedlun.Volume, error) {
	v, err := find(g, c.Name, c.UUID)
	if err == nil && (v.HeldBy != c.Node || v.Leaving) {
		err = fmt.Errorf("volume %s: %w: it is held by node %q, leaving %t, not by %s", c.Name, sharedlun.ErrHeld, v.HeldBy, v.Leaving, c.Node)
	}
	return v, err
}

// VolumeContent is what is on a volume.
type VolumeContent struct {
	// Type of the filesystem or other format; empty when there is none. Unknown is true when something is there that nobody recognises.
	Type    string
	Unknown bool
	// UUID of a filesystem, and whether the program that made it did not come to its end.
	UUID       string
	Unfinished bool
}

// Format reports whether a volume was used before, so that no filesystem is made on it, whatever is there. seen is the group as the LUN has it now, v the volume as
// the caller knows it, m its device on this node, and lun the number of the LUN's device. It is an error unless the LUN lets this node make the first
// filesystem, and the device shows all that is ready of the volume.
func Format(seen sharedlun.Group, v sharedlun.Volume, node string, m *Mapped, lun string) (usedBefore bool, err error) {
	on, err := Mine(seen, v, node)
	switch {
	case err != nil:
		return false, err
	case on.Used:
		return true, nil
	case on.MakingOn != node:
		return false, fmt.Errorf("%w: volume %s lets node %q make its first filesystem, and this is %s", sharedlun.ErrHeld, v.Name, on.MakingOn, node)
	}
	shown, err := Shown(on)
	switch {
	case err != nil:
		return false, err
	case m == nil || !m.Live || !m.Linear || m.Cut || m.Suspended || m.Pending || m.Path == "" || m.Lun != lun || !equal(sharedlun.Merge(shown), sharedlun.Merge(m.Ranges)):
		return false, fmt.Errorf("%w: volume %s is not mapped here as the LUN says: map it first", sharedlun.ErrMisfit, v.Name)
	}
	return false, nil
}

// Unmade reports whether a volume that no pod saw lacks its filesystem, which has that UUID and is whole. Everything else is left over: by a program that was
// killed, or by an earlier user of the place, whose RAID or ZFS label at the end of the volume is seen where only its beginning was zeroed.
func Unmade(have VolumeContent, uuid string) bool {
	return have.Unknown || have.Type == "" || have.Unfinished || have.UUID != uuid
}
