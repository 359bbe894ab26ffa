package lvm

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/plan"
)

// Contents looks into volumes, as first use does.
type Contents struct {
	Devices     Devices
	Filesystems Filesystems
}

// Unused refuses an active volume that carries the mark of a new one, and holds what FirstUse would keep or refuse, whatever it is wanted for. What
// cannot be read is refused, too.
func (c Contents) Unused(ctx context.Context, group string, v plan.Volume) error {
	d, err := c.Devices.Find(group, v.Name)
	if err != nil {
		return fmt.Errorf("volume %s in group %s: what is on it %w: find its device: %w", v.Name, group, plan.ErrUntold, err)
	}
	have, err := c.Filesystems.Describe(ctx, d.Path)
	if err != nil {
		return fmt.Errorf("volume %s in group %s: what is on it %w: %w", v.Name, group, plan.ErrUntold, err)
	}
	from := recordedIn(csi.From{Path: d.Path}, v)
	// Nothing is made on it that would rely on zeroes: what first use refuses to clear is not removed either.
	from.Zeroed = from.Zeroed || from.RawZeroed
	keep, err := used(from, have, true)
	switch {
	case err != nil:
		return fmt.Errorf("volume %s in group %s: %w: %w", v.Name, group, plan.ErrInUse, err)
	case keep:
		return fmt.Errorf("volume %s in group %s is marked as never used, and holds what was written since it was made: %w", v.Name, group, plan.ErrInUse)
	}
	return nil
}
