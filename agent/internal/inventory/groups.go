package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
)

var (
	// errUnreported means that a device has an LVM label and LVM's report says nothing about it.
	errUnreported = errors.New("LVM does not report it")
	// errUnnamed means that a device is in a group, and LVM does not say in which.
	errUnnamed = errors.New("the device belongs to a volume group, and LVM finds no metadata of it")
)

// addGroups asks LVM about the devices that carry its label, if there are any, and joins the answer.
func (i *Inventory) addGroups(ctx context.Context, devices []*observed) plan.Snapshot {
	labelled, unclear := physicalVolumes(devices)
	var snap plan.Snapshot
	labelled, snap.ForeignGroups = i.spareShared(labelled)
	told := i.report(ctx, labelled)
	i.dropEarlier(&told, labelled)
	j := newJoin(labelled, told.pvs)
	for _, d := range labelled {
		if err := told.failed[d]; err != nil {
			d.ungrouped(err)
			continue
		}
		j.device(d, told.vgs)
		d.OtherNode = i.otherNode(d.OtherNode)
	}
	for _, vg := range told.vgs {
		owner, ours := ownerOf(vg.Tags)
		if !ours {
			snap.ForeignGroups = append(snap.ForeignGroups, vg.Name)
			continue
		}
		snap.Groups = append(snap.Groups, j.markStale(i.whose(j.group(vg, owner)), vg, devices))
	}
	addUnknown(&snap, append(unclear, labelled...), told.vgs)
	slices.Sort(snap.ForeignGroups)
	snap.ForeignGroups = slices.Compact(snap.ForeignGroups)
	return snap
}

// whose says whose node a group is.
func (i *Inventory) whose(g plan.Group) plan.Group {
	switch {
	case i.otherNode(g.SystemID) != "":
		g.Access = plan.AccessOther
	case g.SystemID != "":
		g.Access = plan.AccessOwn
	default:
		g.Access = plan.AccessNone
	}
	return g
}

// otherNode is a system ID that is another node's; empty for that of this node, and for none.
func (i *Inventory) otherNode(id string) string {
	if id == i.cfg.SystemID {
		return ""
	}
	return id
}

// physicalVolumes are the devices whose LVM label is their own. A device below multipath or RAID shows the label of the
// device above it. Two devices with the same label cannot be told apart by LVM: neither is given to it. They are unclear, and so is one
// with a damaged label.
func physicalVolumes(devices []*observed) (labelled, unclear []*observed) {
	byUUID := map[string][]*observed{}
	kinds := map[string]*observed{}
	for _, d := range devices {
		kinds[d.KernelName] = d
	}
	for _, d := range devices {
		if hasLabel(d) && !isLeg(d, kinds) {
			byUUID[d.PVUUID] = append(byUUID[d.PVUUID], d)
		}
	}
	for uuid, same := range byUUID {
		if uuid == "" || len(same) > 1 {
			for _, d := range same {
				d.ungrouped(errors.New(cmp.Or(duplicateText(same), "the LVM label is damaged")))
			}
			unclear = append(unclear, same...)
			continue
		}
		labelled = append(labelled, same[0])
	}
	byName := func(a, b *observed) int { return cmp.Compare(a.KernelName, b.KernelName) }
	slices.SortFunc(labelled, byName)
	slices.SortFunc(unclear, byName)
	return labelled, unclear
}

func hasLabel(d *observed) bool {
	return slices.ContainsFunc(d.Signatures, func(s plan.Signature) bool { return s.Type == "LVM2_member" })
}

// isLeg reports whether the device is one of those that multipath or RAID make another one of.
func isLeg(d *observed, kinds map[string]*observed) bool {
	return slices.ContainsFunc(d.Holders, func(holder string) bool {
		h := kinds[holder]
		return h != nil && (h.Type == "md" || strings.HasPrefix(h.block.DMUUID, "mpath-"))
	})
}

// duplicateText names the devices with the same UUID; empty for one that has none.
func duplicateText(same []*observed) string {
	if same[0].PVUUID == "" {
		return ""
	}
	names := make([]string, 0, len(same))
	for _, d := range same {
		names = append(names, d.KernelName)
	}
	slices.Sort(names)
	return fmt.Sprintf("%s carry the same physical volume", strings.Join(names, ", "))
}

// ownerOf reads our tag. Two different ones make the group nobody's.
func ownerOf(tags []string) (string, bool) {
	owner := ""
	for _, tag := range tags {
		uid, ok := strings.CutPrefix(tag, quarry.TagCluster)
		if !ok || uid == "" {
			continue
		}
		if owner != "" {
			return "", false
		}
		owner = uid
	}
	return owner, owner != ""
}

// ownersBefore reads which Clusters a group belonged to once, ordered.
func ownersBefore(tags []string) []string {
	var out []string
	for _, tag := range tags {
		if uid, ok := strings.CutPrefix(tag, quarry.TagOwnerBefore); ok && uid != "" {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// join connects devices and LVM's physical volumes, by number and UUID.
type join struct {
	devices map[string]*observed
	pvs     map[string]lvm.PV
	all     []lvm.PV
}

func newJoin(devices []*observed, pvs []lvm.PV) join {
	j := join{devices: map[string]*observed{}, pvs: map[string]lvm.PV{}, all: pvs}
	for _, d := range devices {
		j.devices[d.PVUUID] = d
	}
	for _, p := range pvs {
		j.pvs[p.UUID] = p
	}
	return j
}

// device fills in what LVM says about one device.
func (j join) device(d *observed, vgs []lvm.VG) {
	pv, ok := j.pvs[d.PVUUID]
	switch {
	case !ok || pv.Missing:
		d.ungrouped(errUnreported)
		return
	case pv.Duplicate:
		d.ungrouped(errors.New("LVM reports the physical volume twice"))
		return
	case pv.Lost || pv.VGUUID == "" && d.pv.inGroup && d.pv.areas > 0:
		// LVM says of a device whose metadata it cannot read that it is in no group, or in one that it does not know.
		d.ungrouped(errUnnamed)
		return
	case pv.Major != d.Major || pv.Minor != d.Minor:
		d.ungrouped(fmt.Errorf("LVM reports the physical volume on %d:%d", pv.Major, pv.Minor))
		return
	}
	d.Group = pv.VGName
	if pv.VGUUID == "" {
		return
	}
	n := slices.IndexFunc(vgs, func(v lvm.VG) bool { return v.UUID == pv.VGUUID })
	if n < 0 {
		d.ungrouped(fmt.Errorf("LVM does not report group %s", pv.VGName))
		return
	}
	d.OwnerUID, _ = ownerOf(vgs[n].Tags)
	d.OtherNode = vgs[n].SystemID
}

// group converts one group of ours.
func (j join) group(vg lvm.VG, owner string) plan.Group {
	g := plan.Group{
		Name: vg.Name, UUID: vg.UUID, OwnerUID: owner, OwnersBefore: ownersBefore(vg.Tags), SizeBytes: vg.SizeBytes, FreeBytes: vg.FreeBytes,
		ExtentBytes: vg.ExtentBytes, Partial: vg.Partial, SystemID: vg.SystemID, Autoactivated: vg.Autoactivated,
		Emptied: vg.Emptied,
	}
	if vg.Moving != nil {
		g.Moving = &plan.Moving{FromUUID: vg.Moving.FromUUID, Bytes: vg.Moving.Bytes}
	}
	for _, p := range j.all {
		if p.VGUUID != vg.UUID {
			continue
		}
		pv := plan.PV{UUID: p.UUID, SizeBytes: p.SizeBytes, FreeBytes: p.FreeBytes}
		if d := j.devices[p.UUID]; d != nil && !p.Missing {
			pv.Path, pv.Returned = d.Path, p.Returned
		}
		g.PVs = append(g.PVs, pv)
	}
	slices.SortFunc(g.PVs, func(a, b plan.PV) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.UUID, b.UUID))
	})
	return volumes(g, vg.Volumes)
}
