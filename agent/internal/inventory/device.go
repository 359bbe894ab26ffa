package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/pvuuid"
)

// observed is a device while it is observed. Here its facts are joined, whoever asks for them: what sysfs and udev say is there from the
// start, then comes what is written on it. Where it is mounted and what LVM says are known of all devices together only.
type observed struct {
	plan.Device
	block block.Device
	// pv is what the metadata of the physical volume on it says, without LVM.
	pv metadata
	// groupErr says why it is not known which group the device belongs to; nil when it is.
	groupErr error
}

// metadata is what LVM's metadata on a device says of the group that the device belongs to.
type metadata struct {
	// inGroup is true when the device belongs to a group, or may.
	inGroup bool
	// areas is how many places it has for metadata. A device without one is in the group that the others say.
	areas int
	// group as the metadata names it; empty when that cannot be read.
	group format.Group
}

// meet takes over what host/block read.
func meet(b block.Device) *observed {
	return &observed{block: b, Device: plan.Device{
		Path: b.Path, KernelName: b.Name, Major: b.Major, Minor: b.Minor, Type: b.Type, Links: b.Links,
		SizeBytes: b.SizeBytes, LogicalSectorBytes: b.LogicalSectorBytes, PhysicalSectorBytes: b.PhysicalSectorBytes,
		Rotational: b.Rotational, Removable: b.Removable, ReadOnly: b.ReadOnly, Zoned: b.Zoned, Suspended: b.Suspended, Mapping: b.DMUUID,
		Model: b.Model, Serial: b.Serial, WWN: b.WWN, Transport: b.Transport,
		Holders: b.Holders, Partitions: b.Partitions, UdevTags: b.Udev, Version: b.Version, Appeared: b.Appeared, Unreadable: slices.Clone(b.Unreadable),
	}}
}

// read adds what is written on the device.
func (d *observed) read(facts disk.Facts) {
	if facts.SizeBytes != d.SizeBytes {
		d.unreadable("size", fmt.Sprintf("sysfs says %d bytes, the device %d", d.SizeBytes, facts.SizeBytes))
	}
	d.HeadTailZero, d.ContentDigest, d.PVUUID = facts.HeadTailZero, facts.ContentDigest, facts.PVUUID
	d.Labels, d.Headers, d.LabelDigest = facts.Labels, facts.Headers, facts.LabelDigest
	d.PVGroup = facts.PVGroup.UUID
	d.pv = metadata{inGroup: facts.PVInGroup, areas: facts.PVAreas, group: facts.PVGroup}
	if facts.Wipe != nil {
		d.Wipe = &plan.WipeMark{Digest: facts.Wipe.Digest}
		for _, s := range facts.Wipe.Later(facts.Signatures) {
			d.Wipe.Later = append(d.Wipe.Later, s.Type)
		}
	}
	for _, s := range facts.Signatures {
		d.Signatures = append(d.Signatures, plan.Signature{Type: s.Type, Offset: s.Offset, UUID: s.UUID, Label: s.Label})
	}
}

// unreadable names a fact that could not be read.
func (d *observed) unreadable(fact string, cause any) {
	d.Unreadable = append(d.Unreadable, fmt.Sprintf("%s: %v", fact, cause))
}

// ungrouped says that it is not known which group the device belongs to.
func (d *observed) ungrouped(err error) {
	d.groupErr = err
	d.unreadable("volume group", err)
}

// unnamedGroup stands for the group of a physical volume whose own metadata names one; which one does not matter to who inspects it.
const unnamedGroup = "(in a group)"

// Inspect sees one device through a file that is open on it, exclusively: what it is comes from the kernel, by its number, and what stands
// on it from the file. Its digest is the one of an observation. LVM is not asked: whether a physical volume belongs to a group is read
// from its own metadata. Whoever else has the device open is looked for: the exclusive open keeps only some away.
func (i *Inventory) Inspect(ctx context.Context, f *os.File) (plan.Device, error) {
	d, err := i.through(f)
	if err != nil {
		return plan.Device{}, err
	}
	return i.used(ctx, d), nil
}

// through sees a device through a file that is open on it.
func (i *Inventory) through(f *os.File) (plan.Device, error) {
	major, minor, err := disk.Number(f)
	if err != nil {
		return plan.Device{}, err
	}
	found, err := i.cfg.Block.Device(major, minor)
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
	return inspected(found, facts), nil
}

// used adds whoever has the device open.
func (i *Inventory) used(ctx context.Context, d plan.Device) plan.Device {
	users, err := i.Users(ctx, []plan.Device{d})
	if err != nil {
		d.Unreadable = append(d.Unreadable, fmt.Sprintf("users: %v", err))
	}
	if len(users) > 0 && len(users[0]) > 0 {
		d.Use, d.Users = plan.Used, users[0]
	}
	return d
}

// Look opens one device exclusively, and reads it through that. Users are looked for once it is closed again: that takes seconds, in which work on the device would wait. It is plan.ErrTaken for one that
// cannot be opened exclusively. Nothing of an observation counts, nor what an earlier test found.
func (i *Inventory) Look(ctx context.Context, d plan.Device) (plan.Device, error) {
	// The search for users has a limit of its own, and comes after the read.
	limit := i.cfg.ProbeTimeout + occupant.DefaultTimeout + occupant.DefaultPause
	return bounded(ctx, i, pvuuid.Kernel(d.KernelName), limit, func(ctx context.Context) (plan.Device, error) {
		f, release, err := i.cfg.Prober.OpenExclusive(ctx, d.Path)
		if errors.Is(err, disk.ErrBusy) {
			err = fmt.Errorf("%w: %w", plan.ErrTaken, err)
		}
		if err != nil {
			return plan.Device{}, err
		}
		look, err := i.through(f)
		if err = errors.Join(err, release()); err != nil {
			return plan.Device{}, err
		}
		return i.used(ctx, look), nil
	})
}

func inspected(b block.Device, facts disk.Facts) plan.Device {
	d := meet(b)
	d.read(facts)
	d.Use = plan.Unused
	if facts.PVInGroup {
		d.Group = unnamedGroup
	}
	return d.Device
}
