package agenttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
)

// links below /dev/disk that udev would make.
func (d *disk) links() []string {
	out := []string{}
	if d.WWN != "" {
		out = append(out, "/dev/disk/by-id/wwn-"+d.WWN)
	}
	if d.Serial != "" {
		out = append(out, "/dev/disk/by-id/ata-"+strings.ReplaceAll(d.Model, " ", "_")+"_"+d.Serial)
	}
	if d.Type == "disk" {
		out = append(out, fmt.Sprintf("/dev/disk/by-path/pci-0000:00:17.0-ata-%d", d.number))
	}
	slices.Sort(out)
	return out
}

// path is the best of the links, else the name.
func (d *disk) path() string {
	if links := d.links(); len(links) > 0 {
		return links[0]
	}
	return "/dev/" + d.Name
}

func (d *disk) empty() bool {
	return len(d.signatures) == 0 && len(d.partitions) == 0 && d.data == "" && d.wipe == nil && d.pv == ""
}

// erase leaves nothing on the disk.
func (d *disk) erase() {
	d.signatures, d.partitions, d.data, d.wipe, d.pv, d.outdated = nil, nil, "", nil, "", nil
}

func (d *disk) inUse() bool { return len(d.mounts) > 0 || len(d.holders) > 0 }

// device is the disk as an observation shows it.
func (h *Host) device(d *disk) plan.Device {
	out := plan.Device{
		Path: d.path(), KernelName: d.Name, Major: 8, Minor: d.number * 16, Type: d.Type, Links: d.links(),
		SizeBytes: d.SizeBytes, LogicalSectorBytes: sectorBytes, PhysicalSectorBytes: sectorBytes,
		Rotational: d.Rotational, Removable: d.Removable, ReadOnly: d.ReadOnly,
		Model: d.Model, Serial: d.Serial, WWN: d.WWN, Transport: d.Transport,
		Holders: slices.Clone(d.holders), Partitions: slices.Clone(d.partitions), Mounts: slices.Clone(d.mounts),
		Signatures: slices.Clone(d.signatures), HeadTailZero: d.empty(), ExclusiveOK: !d.inUse() && !h.active(d),
		PVUUID: d.pv, Unreadable: slices.Clone(d.unreadable),
	}
	if d.wipe != nil {
		mark := *d.wipe
		out.Wipe = &mark
	}
	if d.pv != "" {
		out.Signatures = append(out.Signatures, plan.Signature{Type: "LVM2_member", Offset: 536, UUID: d.pv})
		if g := h.groupOf(d.pv); g != nil {
			out.Group, out.OwnerUID = g.name, g.owner()
		}
		if h.active(d) {
			out.Holders = append(out.Holders, "dm-0")
		}
	}
	if d.outdated != nil {
		out.Unreadable = append(out.Unreadable, "volume group: LVM does not report it")
	}
	if d.pv == "" && !d.inUse() && len(d.unreadable) == 0 {
		out.ContentDigest = d.contentDigest()
	}
	return out
}

func (d *disk) contentDigest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%v %v %q %v", d.signatures, d.partitions, d.data, d.wipe))
	return hex.EncodeToString(sum[:])
}
