package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
)

// errGroupChanged means that the devices of a group do not carry that group any more, or not all of it.
var errGroupChanged = errors.New("the group is not as it was observed")

// ObserveGroup asks LVM, in one process that sees the devices of the group only, what the group is now. It fails when the group is
// another one or its devices have changed: then everything has to be observed.
func (i *Inventory) ObserveGroup(ctx context.Context, was plan.Group) (plan.Group, error) {
	known := map[string]string{}
	var devices []string
	for _, p := range was.PVs {
		if p.Path != "" {
			known[p.UUID] = p.Path
			devices = append(devices, p.Path)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.cfg.ReportTimeout/2, errNoAnswer)
	defer cancel()
	vgs, pvs, err := i.cfg.LVM.Report(ctx, devices)
	if err != nil {
		return plan.Group{}, fmt.Errorf("observe group %s: %w", was.Name, err)
	}
	n := slices.IndexFunc(vgs, func(v lvm.VG) bool { return v.UUID == was.UUID })
	if n < 0 || len(vgs) != 1 || vgs[n].Name != was.Name || vgs[n].Earlier != "" {
		return plan.Group{}, fmt.Errorf("observe group %s: %w", was.Name, errGroupChanged)
	}
	owner, ours := ownerOf(vgs[n].Tags)
	if !ours {
		return plan.Group{}, fmt.Errorf("observe group %s: %w", was.Name, errGroupChanged)
	}
	j := newJoin(nil, pvs)
	for uuid, path := range known {
		j.devices[uuid] = &observed{Device: plan.Device{Path: path}}
	}
	return keepStale(i.whose(j.group(vgs[n], owner)), was), nil
}

// volumes adds the volumes and thin pools.
func volumes(g plan.Group, lvs []lvm.LV) plan.Group {
	for _, v := range lvs {
		if v.ThinPool {
			g.Pools = append(g.Pools, pool(v, lvs))
			continue
		}
		seen := plan.Volume{
			Name: v.Name, ID: valueOf(v.Tags, plan.TagVolume), UUID: v.UUID, SizeBytes: v.SizeBytes, Pool: v.Pool, Source: sourceOf(v),
			Snapshot: slices.Contains(v.Tags, plan.TagSnapshot), New: slices.Contains(v.Tags, plan.TagNew),
			Removing: slices.Contains(v.Tags, plan.TagRemoving), TailOf: valueOf(v.Tags, plan.TagTailOf), FilesystemOnly: slices.Contains(v.Tags, plan.TagFilesystemOnly),
			Active: v.Active, Open: v.Open, Suspended: v.Suspended, Health: v.Health, CreatedUnix: v.CreatedUnix,
		}
		seen.ZeroedBytes, seen.Unzeroed = zeroed(v.Tags)
		if v.Thin != nil {
			seen.DeviceID, seen.TransactionID = v.Thin.DeviceID, v.Thin.TransactionID
		}
		for _, e := range v.Extents {
			seen.Extents = append(seen.Extents, plan.Extents{Path: path(g, e.PVUUID), First: e.First, Count: e.Count})
		}
		g.LogicalVolumes = append(g.LogicalVolumes, seen)
	}
	return g.Named()
}

// path is that of a physical volume of the group; empty when it is missing.
func path(g plan.Group, uuid string) string {
	for _, pv := range g.PVs {
		if pv.UUID == uuid {
			return pv.Path
		}
	}
	return ""
}

// zeroed reads how far a volume is zeroed that has to be. What cannot be read is not zeroed at all; of several tags the lowest counts.
func zeroed(tags []string) (bytes int64, unzeroed bool) {
	for _, tag := range tags {
		text, ok := strings.CutPrefix(tag, plan.TagUnzeroed)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			n = 0
		}
		if !unzeroed || n < bytes {
			bytes = n
		}
		unzeroed = true
	}
	return bytes, unzeroed
}

func pool(v lvm.LV, lvs []lvm.LV) plan.Pool {
	p := plan.Pool{
		Name: v.Name, Ours: slices.Contains(v.Tags, plan.TagPool), SizeBytes: v.SizeBytes, MetadataBytes: v.MetadataBytes,
		DataPermyriad: v.DataPermyriad, MetadataPermyriad: v.MetadataPermyriad, UsageUnknown: v.UsageUnknown,
		Active: v.Active, Suspended: v.Suspended, Health: v.Health, Damage: v.Damage, UUID: v.UUID,
	}
	if v.Thin != nil {
		p.TransactionID, p.ChunkBytes = v.Thin.TransactionID, v.Thin.ChunkBytes
	}
	used := false
	for _, other := range lvs {
		if isKept(other, v.Name) {
			p.Kept = append(p.Kept, other.Name)
		}
		if other.Pool == v.Name {
			p.Volumes++
			p.VirtualBytes += other.SizeBytes
			used = used || !slices.Contains(other.Tags, plan.TagNew)
		}
	}
	p.Damage = cmp.Or(p.Damage, ofAnother(v.Thin, used))
	return p
}

// isKept reports whether a volume holds the metadata of a pool as it was before a repair: LVM calls it so.
func isKept(v lvm.LV, pool string) bool {
	number, ok := strings.CutPrefix(v.Name, pool+"_meta")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && err == nil && !v.ThinPool && v.Pool == ""
}

// ofAnother says that the metadata that the kernel works with is not that of LVM's record. Where it is newer, LVM's record was put back, and knows
// nothing of the changes since; LVM records a change before it tells the kernel, so that no kill explains it. Where it is older, it was begun anew. Older agents activated pools
// of which the metadata began with zeroes, and the kernel makes empty metadata there, which looks healthy. One transaction less is no damage,
// unless nothing is left of a volume that was used: LVM records a change before it tells the kernel, and goes on with it after a kill.
func ofAnother(t *lvm.Thin, used bool) string {
	if t == nil || t.KernelTransactionID == nil {
		return ""
	}
	switch kernel := *t.KernelTransactionID; {
	case kernel > t.TransactionID:
		return fmt.Sprintf("its metadata is of transaction %d, and LVM recorded %d: LVM's record is an earlier one, and does not tell which volumes there are", kernel, t.TransactionID)
	case kernel == t.TransactionID || kernel == t.TransactionID-1 && (kernel > 0 || !used):
		return ""
	default:
		return fmt.Sprintf("its metadata is of transaction %d, and LVM recorded %d: it was begun anew, and tells nothing of its volumes", kernel, t.TransactionID)
	}
}

// sourceOf is what a volume was copied from, while that exists. A snapshot tells it for good.
func sourceOf(v lvm.LV) string {
	for _, tag := range v.Tags {
		if name, ok := strings.CutPrefix(tag, plan.TagSource); ok && slices.Contains(v.Tags, plan.TagSnapshot) {
			return name
		}
	}
	return v.Origin
}

// valueOf reads what follows a tag of ours. Two different ones make the volume nobody's.
func valueOf(tags []string, prefix string) string {
	value := ""
	for _, tag := range tags {
		text, ok := strings.CutPrefix(tag, prefix)
		if !ok || text == "" {
			continue
		}
		if value != "" {
			return ""
		}
		value = text
	}
	return value
}
