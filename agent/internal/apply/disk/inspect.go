package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"quarry.storage/quarry/agent/internal/host/block"
	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
)

// Block reads a block device of the node.
type Block interface {
	Device(major, minor uint32) (block.Device, error)
}

// Reader sees a device as the kernel lists it, by its number, and what stands on it through the open file.
type Reader struct{ Block Block }

// Inspect sees the device behind the file.
func (r Reader) Inspect(f *os.File) (plan.Device, error) {
	major, minor, err := hostdisk.Number(f)
	if err != nil {
		return plan.Device{}, err
	}
	found, err := r.Block.Device(major, minor)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Device{}, fmt.Errorf("%w: %w", plan.ErrNotFound, err)
	}
	if err != nil {
		return plan.Device{}, err
	}
	facts, err := hostdisk.ProbeFile(f)
	if err != nil {
		return plan.Device{}, err
	}
	return device(found, facts), nil
}

// device joins the facts with which a token is compared.
func device(b block.Device, facts hostdisk.Facts) plan.Device {
	d := plan.Device{
		Path: b.Path, KernelName: b.Name, Major: b.Major, Minor: b.Minor, Type: b.Type, Links: b.Links,
		SizeBytes: facts.SizeBytes, LogicalSectorBytes: b.LogicalSectorBytes, Model: b.Model, Serial: b.Serial, WWN: b.WWN,
		Holders: b.Holders, Partitions: b.Partitions, Unreadable: b.Unreadable,
		HeadTailZero: facts.HeadTailZero, ContentDigest: facts.ContentDigest, Use: plan.Unused, PVUUID: facts.PVUUID,
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
