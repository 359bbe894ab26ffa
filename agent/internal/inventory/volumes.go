package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	if n < 0 || len(vgs) != 1 || vgs[n].Name != was.Name {
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
	return i.whose(j.group(vgs[n], owner)), nil
}

// volumes adds the volumes and thin pools.
func volumes(g plan.Group, lvs []lvm.LV) plan.Group {
	for _, v := range lvs {
		if v.ThinPool {
			g.Pools = append(g.Pools, pool(v, lvs))
			continue
		}
		g.LogicalVolumes = append(g.LogicalVolumes, plan.Volume{
			Name: v.Name, ID: volumeID(v.Tags), UUID: v.UUID, SizeBytes: v.SizeBytes, Pool: v.Pool, Source: sourceOf(v),
			Snapshot: slices.Contains(v.Tags, plan.TagSnapshot), New: slices.Contains(v.Tags, plan.TagNew), Active: v.Active, Open: v.Open, Suspended: v.Suspended, Health: v.Health, CreatedUnix: v.CreatedUnix,
		})
	}
	return g.Named()
}

func pool(v lvm.LV, lvs []lvm.LV) plan.Pool {
	p := plan.Pool{
		Name: v.Name, Ours: slices.Contains(v.Tags, plan.TagPool), SizeBytes: v.SizeBytes, MetadataBytes: v.MetadataBytes,
		DataPermyriad: v.DataPermyriad, MetadataPermyriad: v.MetadataPermyriad, UsageUnknown: v.UsageUnknown,
		Active: v.Active, Suspended: v.Suspended, Health: v.Health,
	}
	for _, other := range lvs {
		if other.Pool == v.Name {
			p.Volumes++
			p.VirtualBytes += other.SizeBytes
		}
	}
	return p
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

// volumeID reads our tag. Two different ones make the volume nobody's.
func volumeID(tags []string) string {
	id := ""
	for _, tag := range tags {
		text, ok := strings.CutPrefix(tag, plan.TagVolume)
		if !ok || text == "" {
			continue
		}
		if id != "" {
			return ""
		}
		id = text
	}
	return id
}
