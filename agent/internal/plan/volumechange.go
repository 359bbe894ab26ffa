package plan

import "fmt"

// DeleteVolume plans how the volume goes. One that is absent needs nothing; a group that is absent is ErrNotFound, because its
// devices may only be away.
func DeleteVolume(s Snapshot, want VolumeSpec) (VolumePlan, error) {
	g, v, exists, err := ownVolume(s, want)
	switch {
	case err != nil || !exists:
		return VolumePlan{}, err
	case v.Open:
		return VolumePlan{}, fmt.Errorf("volume %s in group %s: %w: it is mounted, or open as a device", v.Name, g.Name, ErrInUse)
	}
	if err := g.whole(); err != nil {
		return VolumePlan{}, err
	}
	step := RemoveLV{Group: g.ref(), Name: v.Name, Tag: TagVolume + v.ID, Reason: "the volume is not wanted any more"}
	return VolumePlan{Volume: v, Plan: Plan{Steps: []Step{step}}}, nil
}

// ResizeVolume plans how the volume gets at least the size. It never shrinks.
func ResizeVolume(s Snapshot, want VolumeSpec) (VolumePlan, error) {
	g, v, err := presentVolume(s, want)
	switch {
	case err != nil:
		return VolumePlan{}, err
	case v.SizeBytes >= want.SizeBytes:
		return VolumePlan{Volume: v}, nil
	case v.Snapshot:
		return VolumePlan{}, fmt.Errorf("%s in group %s is a snapshot, which does not grow: %w", v.Name, g.Name, ErrInvalid)
	}
	size, err := g.roundUp(want.SizeBytes)
	if err != nil {
		return VolumePlan{}, err
	}
	reason := fmt.Sprintf("volume has %d bytes and %d are wanted", v.SizeBytes, want.SizeBytes)
	return g.grow(v, size, want.OverprovisionPercent, ErrOverLimit, reason)
}

// ActivateVolume plans how the device node of the volume comes to exist.
func ActivateVolume(s Snapshot, want VolumeSpec) (VolumePlan, error) {
	g, v, err := presentVolume(s, want)
	if err != nil || v.Active {
		return VolumePlan{Volume: v}, err
	}
	step := ActivateLV{Group: g.ref(), Name: v.Name, Tag: TagVolume + v.ID, Reason: "the volume is wanted on this node and not active"}
	v.Active = true
	return VolumePlan{Volume: v, Plan: Plan{Steps: []Step{step}}}, nil
}

// SettleVolume plans how the volume comes to be in use: it is not new any more.
func SettleVolume(s Snapshot, want VolumeSpec) (VolumePlan, error) {
	g, v, err := presentVolume(s, want)
	if err != nil || !v.New {
		return VolumePlan{Volume: v}, err
	}
	step := SettleLV{Group: g.ref(), Name: v.Name, Tag: TagVolume + v.ID, Reason: "the volume is used from now on"}
	v.New = false
	return VolumePlan{Volume: v, Plan: Plan{Steps: []Step{step}}}, nil
}

// presentVolume is ownVolume for a volume that has to exist.
func presentVolume(s Snapshot, want VolumeSpec) (Group, Volume, error) {
	g, v, exists, err := ownVolume(s, want)
	if err == nil && !exists {
		err = fmt.Errorf("volume %s in group %s: %w", want.Name, want.Group, ErrNotFound)
	}
	return g, v, err
}

// ownVolume finds a volume and refuses one of another id.
func ownVolume(s Snapshot, want VolumeSpec) (Group, Volume, bool, error) {
	g, err := volumeGroup(s, want.Group, want.OwnerUID)
	if err != nil {
		return Group{}, Volume{}, false, err
	}
	v, exists := g.Volume(want.Name)
	switch {
	case exists && v.ID == "":
		return Group{}, Volume{}, false, fmt.Errorf("volume %s in group %s carries no id of ours: %w", v.Name, g.Name, ErrNotOurs)
	case exists && v.ID != want.ID:
		return Group{}, Volume{}, false, fmt.Errorf("volume %s in group %s has the id %q: %w", v.Name, g.Name, v.ID, ErrNotOurs)
	}
	if _, pool := g.Pool(want.Name); pool {
		return Group{}, Volume{}, false, fmt.Errorf("%s in group %s is a thin pool, not a volume: %w", want.Name, g.Name, ErrNotOurs)
	}
	return g, v, exists, nil
}
