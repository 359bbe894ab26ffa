package tools

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// CreateLV makes a volume.
func (h Host) CreateLV(ctx context.Context, s volume.CreateLV) error {
	return h.volume(s.Group, func(g lvm.Owned) error {
		return h.LVM.CreateLV(ctx, g, lvm.NewVolume{
			Name: s.Name, Tags: s.Tags, SizeBytes: s.SizeBytes, Pool: s.Pool, Source: s.Source, Snapshot: s.Snapshot,
		})
	})
}

// ExtendLV makes a volume or a pool larger.
func (h Host) ExtendLV(ctx context.Context, s volume.ExtendLV) error {
	return h.volume(s.Group, func(g lvm.Owned) error { return h.LVM.ExtendLV(ctx, g, s.Name, s.SizeBytes, s.MetadataBytes) })
}

// ActivateLV makes the device node of a volume.
func (h Host) ActivateLV(ctx context.Context, s volume.ActivateLV) error {
	return h.volume(s.Group, func(g lvm.Owned) error { return h.LVM.ActivateLV(ctx, g, s.Name, s.Tag) })
}

// SettleLV takes a tag off.
func (h Host) SettleLV(ctx context.Context, s volume.SettleLV) error {
	return h.volume(s.Group, func(g lvm.Owned) error { return h.LVM.UntagLV(ctx, g, s.Name, s.Tag, plan.TagNew) })
}

// DeactivateLV takes the device node of a volume away.
func (h Host) DeactivateLV(ctx context.Context, s plan.DeactivatePool) error {
	return h.volume(s.Group, func(g lvm.Owned) error { return h.LVM.DeactivateLV(ctx, g, s.Name, s.Tag) })
}

// RemoveLV removes a volume.
func (h Host) RemoveLV(ctx context.Context, s volume.RemoveLV) error {
	return h.volume(s.Group, func(g lvm.Owned) error { return h.LVM.RemoveLV(ctx, g, s.Name, s.Tag) })
}

// CreatePool makes a thin pool.
func (h Host) CreatePool(ctx context.Context, s volume.CreatePool) error {
	return h.volume(s.Group, func(g lvm.Owned) error {
		return h.LVM.CreatePool(ctx, g, lvm.NewPool{
			Name: s.Name, Tags: s.Tags, SizeBytes: s.SizeBytes, MetadataBytes: s.MetadataBytes, ChunkBytes: s.ChunkBytes,
		})
	})
}

// RemovePool removes a thin pool without volumes.
func (h Host) RemovePool(ctx context.Context, s plan.RemovePool) error {
	return h.volume(s.Group, func(g lvm.Owned) error { return h.LVM.RemovePool(ctx, g, s.Name, s.Tag) })
}

// volumeErrors are what callers of the methods on volumes tell apart; the rest is as for groups.
var volumeErrors = []struct{ tool, meaning error }{
	{lvm.ErrExists, apply.ErrExists},
	{lvm.ErrNoSpace, apply.ErrNoRoom},
	{lvm.ErrInUse, apply.ErrInUse},
}

// volume works on one group. Its devices are reserved, because device-mapper claims them for itself when the first volume of the
// group is activated, and an observation that has one open exclusively at that moment would make it fail.
func (h Host) volume(g plan.GroupRef, work func(lvm.Owned) error) error {
	release, err := h.Disk.Reserve(g.Devices...)
	if err != nil {
		return refused(err)
	}
	defer release()
	err = work(lvm.Owned{Name: g.Name, Devices: g.Devices, Tag: g.Tag})
	for _, e := range volumeErrors {
		if errors.Is(err, e.tool) {
			return fmt.Errorf("%w: %w", e.meaning, err)
		}
	}
	return refused(err)
}
