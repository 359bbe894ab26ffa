// Package volume decides on the logical volumes and thin pools of a group: how one comes to exist, grows, is used and goes. From a
// snapshot of the node and what is wanted it makes a list of typed steps, each with a reason. Like package plan it is pure: no clock,
// no files, no processes, no network.
package volume

import (
	"fmt"
	"math"

	"quarry.storage/quarry/agent/internal/plan"
)

// Spec is the volume that a caller wants, or wants to be rid of.
type Spec struct {
	Group, OwnerUID, Name, ID string
	// GroupUUID is that of the group that is meant; empty for any of that name.
	GroupUUID string
	// SizeBytes is wanted at least. A copy without a size has that of its source.
	SizeBytes    int64
	Pool, Source string
	Snapshot     bool
	// OnlyUnused removes the volume only if it was made empty and nobody used it yet.
	OnlyUnused bool
	// Discard has the disks discard a linear volume before it is removed.
	Discard bool
	// Zero says what of a linear volume is zeroed before it is shown.
	Zero Zero
	// OverprovisionPercent bounds the virtual sizes in the pool, as a multiple of its size; no bound when zero.
	OverprovisionPercent int32
}

// Plan is what to do for one volume, and what is known of the volume then.
type Plan struct {
	plan.Plan
	// Volume is what the steps make: the volume as it is afterwards, or the tail that has to be zeroed before it grows. Of a volume that is removed it is what
	// was there before, on which Discarding relies, and of one that is gone already it is empty.
	Volume plan.Volume
	// GroupUUID is the group that the steps work in: of two with one name, the one that holds the volume.
	GroupUUID string
	// Unfinished is what the caller is told once the steps are done; nil when what is wanted is there then.
	Unfinished error
}

// Decide is one of the decisions of this package on one volume.
type Decide func(plan.Snapshot, Spec) (Plan, error)

// Create plans how the volume comes to exist. A volume of that name with the same id, kind and size needs nothing; any other volume
// of that name is refused.
func Create(s plan.Snapshot, want Spec) (Plan, error) { return resumed(s, want, create) }

// Delete plans how the volume goes. A volume that is absent needs nothing. A group that is absent is plan.ErrNotFound, because its
// devices may come back.
func Delete(s plan.Snapshot, want Spec) (Plan, error) { return resumed(s, want, remove) }

// Resize plans how the volume gets at least the size. It never shrinks.
func Resize(s plan.Snapshot, want Spec) (Plan, error) { return resumed(s, want, resize) }

// Activate plans how the device node of the volume comes to exist, and works.
func Activate(s plan.Snapshot, want Spec) (Plan, error) { return resumed(s, want, activate) }

// Settle plans how the volume comes to be in use: it is not new any more.
func Settle(s plan.Snapshot, want Spec) (Plan, error) { return resumed(s, want, settle) }

// does is a plan of some steps, in this order.
func does(steps ...plan.Step) plan.Plan { return plan.Plan{Steps: steps} }

// group is a group in which this package decides.
type group struct{ plan.Group }

// holder finds the group that holds a volume. Of several groups of one name, which disks that come back or were copied lead to, each serves what
// it holds; anything else is decided only while there is one.
func holder(s plan.Snapshot, want Spec) (group, error) {
	var holding []plan.Group
	for _, g := range s.Groups {
		v, ok := g.Volume(want.Name)
		meant := want.GroupUUID == "" || g.UUID == want.GroupUUID
		if ok && meant && g.Usable() && g.Name == want.Group && g.OwnerUID == want.OwnerUID && v.ID != "" && v.ID == want.ID {
			holding = append(holding, g)
		}
	}
	switch len(holding) {
	case 0:
		return groupOf(s, plan.GroupSpec{Name: want.Group, OwnerUID: want.OwnerUID, UUID: want.GroupUUID})
	case 1:
		return group{holding[0]}, nil
	}
	return group{}, fmt.Errorf("volume %s is in %d groups of the name %s, and which one is meant %w; take the disks of the copy out of the node",
		want.Name, len(holding), want.Group, plan.ErrUntold)
}

// groupOf finds the one group of that name and refuses one that is not the owner's, or not the one that is meant.
func groupOf(s plan.Snapshot, want plan.GroupSpec) (group, error) {
	g, exists, err := plan.OwnGroup(s, want, plan.ErrNotOurs)
	switch {
	case err != nil:
		return group{}, err
	case !exists:
		return group{}, fmt.Errorf("group %s: %w", want.Name, plan.ErrNotFound)
	}
	return group{g}, nil
}

// present finds a volume that has to exist.
func present(s plan.Snapshot, want Spec) (group, plan.Volume, error) {
	g, v, exists, err := find(s, want)
	if err == nil && !exists {
		err = fmt.Errorf("volume %s in group %s: %w", want.Name, want.Group, plan.ErrNotFound)
	}
	return g, v, err
}

// find looks for a volume and refuses one of another id.
func find(s plan.Snapshot, want Spec) (group, plan.Volume, bool, error) {
	g, err := holder(s, want)
	if err != nil {
		return group{}, plan.Volume{}, false, err
	}
	v, exists := g.Volume(want.Name)
	switch {
	case exists && v.ID == "":
		return group{}, plan.Volume{}, false, fmt.Errorf("volume %s in group %s carries no id of ours: %w", v.Name, g.Name, plan.ErrNotOurs)
	case exists && v.ID != want.ID:
		return group{}, plan.Volume{}, false, fmt.Errorf("volume %s in group %s has the id %q: %w", v.Name, g.Name, v.ID, plan.ErrNotOurs)
	}
	if _, pool := g.Pool(want.Name); pool {
		return group{}, plan.Volume{}, false, fmt.Errorf("%s in group %s is a thin pool, not a volume: %w", want.Name, g.Name, plan.ErrNotOurs)
	}
	return g, v, exists, nil
}

// whole refuses what takes space in a group that lacks a device. LVM makes nothing and makes nothing larger there, wherever the space is. It
// does activate, settle and remove what has no extents on the device.
func (g group) whole() error {
	if g.Partial {
		return fmt.Errorf("group %s: %w; LVM makes no volume, and makes none larger, until the device is back or the group has forgotten it",
			g.Name, plan.ErrPartial)
	}
	return g.still()
}

// still refuses what LVM may refuse, or may do wrong, while extents are being moved or a move was cut off.
func (g group) still() error {
	if err := g.Still(); err != nil {
		return fmt.Errorf("group %s: %w", g.Name, err)
	}
	return nil
}

// roundUp makes whole extents of a size. No group has room for a size that cannot be counted.
func (g group) roundUp(size int64) (int64, error) {
	extent := max(g.ExtentBytes, 1)
	if size > math.MaxInt64-extent {
		return 0, fmt.Errorf("%d bytes in group %s: %w", size, g.Name, plan.ErrNoRoom)
	}
	return (size + extent - 1) / extent * extent, nil
}
