// Package lvm performs the steps on physical volumes, volume groups and logical volumes with LVM. It decides nothing. A new verb of LVM
// is a step type, a method of host/lvm and a case here.
package lvm

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/host/dm"
	hostlvm "quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/claim"
	"quarry.storage/quarry/agent/internal/plan/move"
	"quarry.storage/quarry/agent/internal/plan/repair"
	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/pvuuid"
)

// Checker shows a device to verify, under an exclusive open that has ended when it returns.
type Checker interface {
	Check(ctx context.Context, path string, verify apply.Verify) error
}

// Adapter performs steps with LVM.
type Adapter struct {
	Tool *hostlvm.LVM
	// Devices are checked right before LVM writes on them. LVM opens a device exclusively itself, so that the check has to end before.
	Devices Checker
	// Zeroes writes into volumes, and has them discarded.
	Zeroes Zeroer
}

// Zeroer writes zeroes into the device of a volume, or has it discarded. It knows the volume by the UUIDs of group and volume. What others have
// open stays as it is: dm.ErrInUse.
type Zeroer interface {
	Zero(ctx context.Context, v dm.Volume, from, to int64) error
	Discard(ctx context.Context, v dm.Volume, from, to int64) error
}

var _ apply.Adapter = Adapter{}

// Perform makes the change that the step describes. LVM looks, in the process that makes a change to a volume, whether the group
// carries the tag of the step, and the volume the step's other tag.
func (a Adapter) Perform(ctx context.Context, step plan.Step) error {
	if err := a.onGroup(ctx, step); !errors.Is(err, apply.ErrUnknown) {
		return meaning(err, groupErrors)
	}
	return meaning(a.onVolume(ctx, step), volumeErrors)
}

func (a Adapter) onGroup(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.CreatePV:
		device := s.Token().Device()
		if err := a.Devices.Check(ctx, device.Path, s.Token().Verify); err != nil {
			return err
		}
		return a.Tool.CreatePV(ctx, device.Path, pvuuid.Complete(s.Stem), device.SizeBytes)
	case plan.CreateVG:
		if err := a.permitted(ctx, s); err != nil {
			return err
		}
		return a.Tool.CreateVG(ctx, s.Name, s.Tags, s.Devices)
	case plan.ExtendVG:
		if err := a.permitted(ctx, s); err != nil {
			return err
		}
		return a.Tool.ExtendVG(ctx, s.Name, s.GroupDevices, s.Devices)
	case plan.ReduceVG:
		return a.Tool.ReduceVG(ctx, s.Name, s.GroupDevices, s.Devices)
	case plan.ReduceMissing:
		return a.Tool.ReduceMissing(ctx, s.Name, s.GroupDevices)
	case plan.RestorePV:
		return a.Tool.RestorePV(ctx, s.Group, s.GroupDevices, s.Device)
	case move.Extents:
		return a.Tool.MovePV(ctx, s.Group, s.GroupDevices, s.Device, s.To, s.Most, s.GoOn)
	case move.Drop:
		return a.Tool.DropEmptied(ctx, s.Group, s.GroupDevices, s.Name)
	case plan.RemoveVG:
		if err := a.Tool.Forget(s.UUID); err != nil {
			return err
		}
		if err := a.Tool.RemoveVG(ctx, s.Name, s.GroupDevices); err != nil {
			return err
		}
		return a.Tool.Forget(s.UUID)
	}
	return a.onOwnership(ctx, step)
}

// onOwnership performs steps on whose a group is, and who activates what is in it.
func (a Adapter) onOwnership(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case claim.StampVG:
		return a.Tool.StampVG(ctx, s.Name, s.GroupDevices)
	case claim.ImportVG:
		return a.Tool.ImportVG(ctx, s.Name, s.From, s.GroupDevices)
	case claim.TakeOverVG:
		return a.Tool.TakeOverVG(ctx, s.Name, s.From, s.To, s.GroupDevices)
	case claim.StopAutoactivation:
		return a.Tool.StopAutoactivation(ctx, s.Name, s.GroupDevices)
	}
	return apply.ErrUnknown
}

// permitted looks at the devices of a step once more. A step without tokens is not performed.
func (a Adapter) permitted(ctx context.Context, step plan.Guarded) error {
	tokens := step.Tokens()
	if len(tokens) == 0 {
		return fmt.Errorf("%s: %w: nothing permits this step", step, plan.ErrRefused)
	}
	for _, t := range tokens {
		if err := a.Devices.Check(ctx, t.Device().Path, t.Verify); err != nil {
			return err
		}
	}
	return nil
}

func (a Adapter) onVolume(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case volume.CreateLV:
		return a.Tool.CreateLV(ctx, owned(s.Group), hostlvm.NewVolume{
			Name: s.Name, Tags: s.Tags, SizeBytes: s.SizeBytes, Pool: s.Pool, Source: s.Source, Snapshot: s.Snapshot,
		})
	case volume.ExtendLV:
		return a.Tool.ExtendLV(ctx, owned(s.Group), s.Name, s.SizeBytes, s.MetadataBytes, places(s.Over)...)
	case volume.ActivateLV:
		return a.Tool.ActivateLV(ctx, owned(s.Group), s.Name, s.Tag)
	case volume.DeactivateLV:
		return a.Tool.DeactivateLV(ctx, owned(s.Group), s.Name, s.Tag)
	case volume.RefreshLV:
		return a.Tool.RefreshLV(ctx, owned(s.Group), s.Name, s.Tag)
	case volume.SettleLV:
		return a.Tool.RetagLV(ctx, owned(s.Group), s.Name, s.Tag, plan.TagNew, "")
	case volume.MarkZeroed:
		return a.Tool.RetagLV(ctx, owned(s.Group), s.Name, s.Tag, s.Was, s.Now)
	case volume.MarkRemoving:
		return a.Tool.RetagLV(ctx, owned(s.Group), s.Name, s.Tag, "", plan.TagRemoving)
	case volume.ZeroLV:
		return a.Zeroes.Zero(ctx, dm.Volume{Group: s.Group, GroupUUID: s.GroupUUID, Name: s.Name, UUID: s.UUID}, s.From, s.To)
	case volume.DiscardLV:
		return a.Zeroes.Discard(ctx, dm.Volume{Group: s.Group, GroupUUID: s.GroupUUID, Name: s.Name, UUID: s.UUID}, s.From, s.To)
	case volume.RemoveLV:
		return a.Tool.RemoveLV(ctx, owned(s.Group), s.Name, s.Tag)
	}
	return a.onPool(ctx, step)
}

func (a Adapter) onPool(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case volume.ActivatePool:
		return a.Tool.ActivatePool(ctx, owned(s.Group), s.Name, s.Tag, s.Holds)
	case repair.Metadata:
		return a.Tool.RepairPool(ctx, owned(s.Group), s.Name, poolMetadata(s.Recorded))
	case volume.CreatePool:
		return a.Tool.CreatePool(ctx, owned(s.Group), hostlvm.NewPool{
			Name: s.Name, Tags: s.Tags, SizeBytes: s.SizeBytes, MetadataBytes: s.MetadataBytes, ChunkBytes: s.ChunkBytes,
		})
	case plan.DeactivatePool:
		return a.Tool.DeactivateLV(ctx, owned(s.Group), s.Name, s.Tag)
	case plan.RemovePool:
		return a.Tool.RemovePool(ctx, owned(s.Group), s.Name, s.Tag)
	}
	return apply.ErrUnknown
}

func places(over []plan.Extents) []hostlvm.Place {
	var out []hostlvm.Place
	for _, e := range over {
		out = append(out, hostlvm.Place{Device: e.Path, First: e.First, Count: e.Count})
	}
	return out
}

func owned(g plan.GroupRef) hostlvm.Owned {
	return hostlvm.Owned{Name: g.Name, Devices: g.Devices, Tag: g.Tag}
}

// meanings say what failures of LVM mean, in the order in which they are looked for.
type meanings []struct{ tool, meaning error }

var (
	groupErrors = meanings{
		{hostlvm.ErrInUse, plan.ErrRefused},
		{hostlvm.ErrSignature, plan.ErrRefused},
		{hostlvm.ErrExists, plan.ErrRefused},
		{hostlvm.ErrNotFound, plan.ErrRefused},
		{hostlvm.ErrPartial, plan.ErrRefused},
		{hostlvm.ErrForeign, plan.ErrRefused},
		{hostlvm.ErrMoving, plan.ErrMoving},
	}
	// volumeErrors tell apart what callers of the calls on volumes tell apart; the rest is as for groups.
	volumeErrors = append(meanings{
		{hostlvm.ErrExists, plan.ErrAlreadyExists},
		{hostlvm.ErrDamaged, plan.ErrDamaged},
		{hostlvm.ErrNoSpace, plan.ErrNoRoom},
		{hostlvm.ErrInUse, plan.ErrInUse},
		{dm.ErrInUse, plan.ErrInUse},
		{dm.ErrNotFound, plan.ErrRefused},
		{dm.ErrNotLVM, plan.ErrRefused},
	}, groupErrors...)
)

// meaning adds to an error what it means. An error of no known meaning stays as it is.
func meaning(err error, in meanings) error {
	for _, m := range in {
		if errors.Is(err, m.tool) {
			return fmt.Errorf("%w: %w", m.meaning, err)
		}
	}
	return err
}

func poolMetadata(r repair.Recorded) hostlvm.PoolMetadata {
	out := hostlvm.PoolMetadata{TransactionID: r.TransactionID, SizeBytes: r.SizeBytes, ChunkBytes: r.ChunkBytes}
	for _, d := range r.Devices {
		out.Devices = append(out.Devices, hostlvm.PoolDevice(d))
	}
	return out
}
