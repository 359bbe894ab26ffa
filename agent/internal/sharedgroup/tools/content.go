package tools

import (
	"fmt"
	"strings"

	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// describe makes a device of what is written on a LUN, as the plans for local disks know it. What the kernel of one node says of its own device is left
// out: every node describes the LUN in the same words.
func describe(f hostdisk.Facts, lun sharedlun.Identity) plan.Device {
	d := plan.Device{
		Path: lun.WWID, Type: "disk", WWN: lun.WWID, Serial: lun.Serial, SizeBytes: f.SizeBytes, LogicalSectorBytes: f.SectorBytes,
		HeadTailZero: f.HeadTailZero, ContentDigest: f.ContentDigest, PVUUID: f.PVUUID, PVGroup: f.PVGroup.UUID, Group: f.PVGroup.Name, Use: plan.Unused,
	}
	for _, s := range f.Signatures {
		d.Signatures = append(d.Signatures, plan.Signature{Type: s.Type, Offset: s.Offset, UUID: s.UUID, Label: s.Label})
	}
	if f.Wipe != nil {
		d.Wipe = &plan.WipeMark{Digest: f.Wipe.Digest}
		for _, s := range f.Wipe.Later(f.Signatures) {
			d.Wipe.Later = append(d.Wipe.Later, s.Type)
		}
	}
	return d
}

// contentOf condenses it, in the words and with the digest of the plans.
func contentOf(d plan.Device, f hostdisk.Facts) decide.Content {
	c := decide.Content{PVUUID: f.PVUUID, InGroup: f.PVInGroup}
	var says []string
	for _, r := range plan.Judge(d, plan.Policy{}) {
		says = append(says, r.Message)
	}
	if len(says) == 0 && f.Clean() || f.Unlabelled && len(f.Signatures) == 0 && f.Wipe == nil {
		c.Blank = true
		return c
	}
	if len(says) == 0 {
		says = []string{fmt.Sprintf("The LUN is not empty: %d signatures.", len(f.Signatures))}
	}
	c.Says, c.Digest = strings.Join(says, " "), plan.Digest(d)
	return c
}
