// Package tools performs steps with the tools of a real node: LVM and the writing half of host/disk. It decides nothing.
package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
)

// refusals are the failures of the tools that mean apply.ErrRefused.
var refusals = []error{
	disk.ErrBusy, disk.ErrMark, disk.ErrNotOurs, lvm.ErrInUse, lvm.ErrSignature, lvm.ErrExists, lvm.ErrNotFound, lvm.ErrPartial,
}

// Block reads a block device of the node.
type Block interface {
	Device(major, minor uint32) (block.Device, error)
}

// LVM is what is needed of LVM.
type LVM interface {
	apply.Groups
	CreateLV(ctx context.Context, g lvm.Owned, v lvm.NewVolume) error
	ExtendLV(ctx context.Context, g lvm.Owned, name string, sizeBytes, metadataBytes int64) error
	ActivateLV(ctx context.Context, g lvm.Owned, name, tag string) error
	UntagLV(ctx context.Context, g lvm.Owned, name, tag, remove string) error
	DeactivateLV(ctx context.Context, g lvm.Owned, name, tag string) error
	RemoveLV(ctx context.Context, g lvm.Owned, name, tag string) error
	CreatePool(ctx context.Context, g lvm.Owned, p lvm.NewPool) error
	RemovePool(ctx context.Context, g lvm.Owned, name, tag string) error
}

// Host is the tools of a real node. It keeps observations away from the devices that it works on, because both need them
// exclusively for a moment.
type Host struct {
	LVM   LVM
	Disk  *disk.Tool
	Block Block
}

var (
	_ apply.Groups  = Host{}
	_ apply.Disks   = Host{}
	_ apply.Volumes = Host{}
)

// CreatePV makes a physical volume.
func (h Host) CreatePV(ctx context.Context, device, uuid string) error {
	return h.reserved([]string{device}, func() error { return h.LVM.CreatePV(ctx, device, uuid) })
}

// CreateVG makes a group.
func (h Host) CreateVG(ctx context.Context, name string, tags, devices []string) error {
	return h.reserved(devices, func() error { return h.LVM.CreateVG(ctx, name, tags, devices) })
}

// ExtendVG adds devices to a group.
func (h Host) ExtendVG(ctx context.Context, name string, groupDevices, newDevices []string) error {
	return h.reserved(slices.Concat(groupDevices, newDevices), func() error {
		return h.LVM.ExtendVG(ctx, name, groupDevices, newDevices)
	})
}

// ReduceVG takes devices out of a group.
func (h Host) ReduceVG(ctx context.Context, name string, groupDevices, remove []string) error {
	return h.reserved(groupDevices, func() error { return h.LVM.ReduceVG(ctx, name, groupDevices, remove) })
}

// ReduceMissing makes a group forget the devices that are missing.
func (h Host) ReduceMissing(ctx context.Context, name string, groupDevices []string) error {
	return h.reserved(groupDevices, func() error { return h.LVM.ReduceMissing(ctx, name, groupDevices) })
}

// RemoveVG removes a group.
func (h Host) RemoveVG(ctx context.Context, name string, groupDevices []string) error {
	return h.reserved(groupDevices, func() error { return h.LVM.RemoveVG(ctx, name, groupDevices) })
}

// Check opens the device exclusively and asks verify. Tools that open the device exclusively themselves come after it.
func (h Host) Check(_ context.Context, path string, verify apply.Verify) error {
	return h.reserved([]string{path}, func() error {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%w: %w", disk.ErrBusy, err)
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return h.verifier(verify)(f)
	})
}

// Wipe makes the device clean.
func (h Host) Wipe(ctx context.Context, path, digest string, verify apply.Verify) error {
	return refused(h.Disk.Wipe(ctx, path, digest, h.verifier(verify)))
}

// Release removes the label of a physical volume.
func (h Host) Release(ctx context.Context, path, pvUUID string, verify apply.Verify) error {
	return refused(h.Disk.Release(ctx, path, pvUUID, h.verifier(verify)))
}

func (h Host) reserved(devices []string, work func() error) error {
	release, err := h.Disk.Reserve(devices...)
	if err != nil {
		return refused(err)
	}
	defer release()
	return refused(work())
}

// refused marks the failures that mean that the plan does not fit any more.
func refused(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return fmt.Errorf("%w: %w", apply.ErrRefused, err)
		}
	}
	return err
}

// verifier observes the device behind an open file and hands it to verify.
func (h Host) verifier(verify apply.Verify) func(*os.File) error {
	return func(f *os.File) error {
		d, err := h.inspect(f)
		if err != nil {
			return fmt.Errorf("observe %s: %w", f.Name(), err)
		}
		return verify(d)
	}
}

// inspect sees one device through the file that is open on it: what it is comes from the kernel, by its number, what stands on it
// from the file itself.
func (h Host) inspect(f *os.File) (plan.Device, error) {
	major, minor, err := disk.Number(f)
	if err != nil {
		return plan.Device{}, err
	}
	found, err := h.Block.Device(major, minor)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Device{}, fmt.Errorf("%w: %w", plan.ErrNotFound, err)
	}
	if err != nil {
		return plan.Device{}, err
	}
	facts, err := disk.ProbeFile(f)
	if err != nil {
		return plan.Device{}, err
	}
	return device(found, facts), nil
}

// device joins the facts that a token is compared with.
func device(b block.Device, facts disk.Facts) plan.Device {
	d := plan.Device{
		Path: b.Path, KernelName: b.Name, Major: b.Major, Minor: b.Minor, Type: b.Type, Links: b.Links,
		SizeBytes: facts.SizeBytes, LogicalSectorBytes: b.LogicalSectorBytes, Model: b.Model, Serial: b.Serial, WWN: b.WWN,
		Holders: b.Holders, Partitions: b.Partitions, Unreadable: b.Unreadable,
		HeadTailZero: facts.HeadTailZero, ContentDigest: facts.ContentDigest, ExclusiveOK: true, PVUUID: facts.PVUUID,
	}
	for _, s := range facts.Signatures {
		d.Signatures = append(d.Signatures, plan.Signature{Type: s.Type, Offset: s.Offset, UUID: s.UUID, Label: s.Label})
	}
	if facts.Wipe != nil {
		d.Wipe = &plan.WipeMark{Digest: facts.Wipe.Digest}
	}
	if facts.PVInGroup {
		d.Group = unnamedGroup
	}
	return d
}

// unnamedGroup stands for the group of a physical volume whose own metadata names one; which one does not matter here.
const unnamedGroup = "(in a group)"
