package inventory

import (
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/sharedlun"
)

// addSharedLUNs finds the devices that are LUNs of Iscsis among those whose content could not be read: such a LUN carries the group of its Iscsi and no other one. Of those
// that could be read, what is on them is known better. Nobody is asked while all can be read.
func (i *Inventory) addSharedLUNs(devices []*observed) {
	unread := func(d *observed) bool {
		return d.Type != "partition" && slices.Contains(i.cfg.ProbeTypes, d.Type) && d.PVUUID == "" &&
			slices.ContainsFunc(d.Unreadable, func(fact string) bool { return strings.HasPrefix(fact, contentFact+": ") })
	}
	if i.cfg.SharedLUNs == nil || !slices.ContainsFunc(devices, unread) {
		return
	}
	// Those that it cannot tell of stay what they are, which is unknown.
	known, _ := i.cfg.SharedLUNs.Devices()
	for _, d := range devices {
		d.IscsiLUN = unread(d) && slices.Contains(known, d.KernelName)
	}
}

// spareShared takes the LUNs with groups of Iscsis out of the devices that LVM is asked about, and returns the names of those groups: they change with each volume on them, LVM would read all
// of each anew, and all that is wanted of them here is whose they are. A group of a shared LUN is on one device. What is on more, or may be, is left to LVM, and so is what does not say whole
// whose it is.
func (i *Inventory) spareShared(labelled []*observed) (asked []*observed, names []string) {
	on := map[string]int{}
	for _, d := range labelled {
		if d.pv.inGroup && d.pv.group.UUID == "" {
			// It may be a part of any of them.
			return labelled, nil
		}
		on[d.pv.group.UUID]++
	}
	for _, d := range labelled {
		g := d.pv.group
		if !shared(g) || on[g.UUID] > 1 {
			asked = append(asked, d)
			continue
		}
		d.Group, d.OtherNode = g.Name, i.otherNode(g.SystemID)
		names = append(names, g.Name)
	}
	return asked, names
}

// shared reports whether a group says that it is that of one Iscsi, and of no host.
func shared(g format.Group) bool {
	owner := ""
	for _, tag := range g.Tags {
		uid, is := strings.CutPrefix(tag, sharedlun.TagOwner)
		if is && owner != "" || strings.HasPrefix(tag, quarry.TagCluster) {
			return false
		}
		if is {
			owner = uid
		}
	}
	return owner != "" && g.UUID != "" && g.SystemID == sharedlun.SystemID(owner)
}
