// Package tools connects the work on shared groups to the tools of this node: LVM, device-mapper, and what reads and clears disks. It converts, and
// decides nothing.
package tools

import (
	"context"
	"errors"
	"fmt"
	"os"

	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/lvm/shared"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Groups works on the group of a LUN.
type Groups struct {
	LVM *shared.LVM
	// Disks is the one that all of the agent works with: it knows which devices are tested for users.
	Disks *hostdisk.Tool
	// Proc is where the kernel tells of all processes of the host; empty means /proc.
	Proc string
}

// Look tells the group of an owner, and reads the LUN itself when there is none.
func (g Groups) Look(ctx context.Context, device string, ref sharedlun.Ref) (decide.Found, error) {
	group, err := g.LVM.Report(ctx, device, ref.OwnerUID)
	if err != nil || group != nil {
		return decide.Found{Group: group}, translated(err)
	}
	facts, err := g.Disks.Probe(ctx, device)
	if err != nil {
		return decide.Found{}, err
	}
	return decide.Found{Content: contentOf(describe(facts, ref.Lun), facts)}, nil
}

// Wipe clears a LUN of which what is on it has that digest. Nothing of this node may have it open.
func (g Groups) Wipe(ctx context.Context, device, digest string, lun sharedlun.Identity) error {
	return g.held(ctx, device, func() error {
		return g.Disks.Wipe(ctx, device, digest, func(f *os.File) error {
			facts, err := hostdisk.ProbeFile(f)
			if err != nil {
				return err
			}
			if c := contentOf(describe(facts, lun), facts); c.Digest != digest && !c.Blank {
				return fmt.Errorf("%w: %s Its digest is %q by now, the consent was given for %s", sharedlun.ErrNotClean, c.Says, c.Digest, digest)
			}
			return nil
		})
	})
}

// MakePV makes the LUN a physical volume.
func (g Groups) MakePV(ctx context.Context, device, ownerUID, stem string, lunBytes int64) error {
	return g.held(ctx, device, func() error { return g.LVM.MakePV(ctx, device, ownerUID, pvuuid.Complete(stem), lunBytes) })
}

// MakeGroup makes the group.
func (g Groups) MakeGroup(ctx context.Context, device, name, ownerUID string, epoch uint64) error {
	return g.held(ctx, device, func() error { return g.LVM.MakeGroup(ctx, device, name, ownerUID, epoch) })
}

// Perform makes one change.
func (g Groups) Perform(ctx context.Context, device string, group sharedlun.Group, step decide.Step) error {
	switch s := step.(type) {
	case decide.SetEpoch:
		return translated(g.LVM.SetEpoch(ctx, device, group, s.Epoch))
	case decide.MakeVolume:
		return translated(g.LVM.CreateVolume(ctx, device, group, s.Name, s.SizeBytes, s.Tags))
	case decide.ExtendVolume:
		return translated(g.LVM.Extend(ctx, device, group, s.Volume, s.SizeBytes))
	case decide.RemoveVolume:
		return translated(g.LVM.RemoveVolume(ctx, device, group, s.Volume))
	case decide.Retag:
		return translated(g.LVM.Retag(ctx, device, group, s.Volume, s.Remove, s.Add))
	}
	return fmt.Errorf("%w: a step %T", sharedlun.ErrInvalid, step)
}

// RemoveGroup removes a group without volumes.
func (g Groups) RemoveGroup(ctx context.Context, device string, group sharedlun.Group) error {
	return g.held(ctx, device, func() error { return g.LVM.RemoveGroup(ctx, device, group) })
}

// RemovePV removes the physical volume, label last.
func (g Groups) RemovePV(ctx context.Context, device, pvUUID string) error {
	return g.held(ctx, device, func() error {
		return g.Disks.Release(ctx, device, pvUUID, func(*os.File) error { return nil })
	})
}

// held works on a LUN while no test for users, and no probe of udev, opens its device: LVM needs that exclusively for a moment.
func (g Groups) held(ctx context.Context, device string, work func() error) error {
	free, err := g.Disks.Lock(ctx, device)
	if err != nil {
		return translated(err)
	}
	defer free()
	return translated(work())
}

// meanings are the errors of the tools that say what a caller is to do.
var meanings = []struct{ tool, meaning error }{
	{lvm.ErrInvalid, sharedlun.ErrInvalid},
	{lvm.ErrNoSpace, sharedlun.ErrNoSpace},
	{lvm.ErrSignature, sharedlun.ErrNotClean},
	{lvm.ErrInUse, sharedlun.ErrInUse},
	{hostdisk.ErrBusy, sharedlun.ErrInUse},
	{hostdisk.ErrMark, sharedlun.ErrNotClean},
	{hostdisk.ErrNotClean, sharedlun.ErrNotClean},
	{hostdisk.ErrNotOurs, sharedlun.ErrNotClean},
}

// translated gives an error of a tool the meaning that it has for a caller. Any other one leaves it unknown what was done.
func translated(err error) error {
	for _, m := range meanings {
		if errors.Is(err, m.tool) {
			return fmt.Errorf("%w: %w", m.meaning, err)
		}
	}
	return err
}
