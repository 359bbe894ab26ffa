package server

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// toDevices converts all devices, each with its digest and its verdict.
func toDevices(s plan.Snapshot, p plan.Policy) []*agentv1.Device {
	out := make([]*agentv1.Device, 0, len(s.Devices))
	for _, d := range s.Devices {
		out = append(out, toDevice(s, d, p))
	}
	return out
}

// toDevice converts one device, as it is seen among the others.
func toDevice(s plan.Snapshot, d plan.Device, p plan.Policy) *agentv1.Device {
	out := &agentv1.Device{
		Path: d.Path, KernelName: d.KernelName, DeviceNumber: fmt.Sprintf("%d:%d", d.Major, d.Minor), Type: d.Type, Links: d.Links,
		SizeBytes: d.SizeBytes, LogicalSectorBytes: int32(d.LogicalSectorBytes), PhysicalSectorBytes: int32(d.PhysicalSectorBytes),
		Rotational: d.Rotational, Removable: d.Removable, ReadOnly: d.ReadOnly,
		Model: d.Model, Serial: d.Serial, Wwn: d.WWN, Transport: d.Transport,
		Holders: d.Holders, Partitions: d.Partitions, Mounts: d.Mounts,
		Digest: plan.Digest(d), PvUuid: d.PVUUID, VolumeGroup: d.Group, OwnerUid: d.OwnerUID,
		Wipeable: plan.Wipeable(s, d, p),
	}
	if d.Appeared != nil {
		out.AppearedMillis = new(d.Appeared.Milliseconds())
	}
	for _, sig := range d.Signatures {
		out.Signatures = append(out.Signatures, &agentv1.Signature{
			Type: sig.Type, OffsetBytes: sig.Offset, Uuid: sig.UUID, Label: sig.Label,
		})
	}
	for _, r := range plan.Judge(d, p) {
		out.Refusals = append(out.Refusals, &agentv1.Refusal{Reason: r.Reason, Message: r.Message})
	}
	return out
}

// toGroups converts the groups that carry our tag.
func (s *Server) toGroups(seen plan.Snapshot) []*agentv1.VolumeGroup {
	out := make([]*agentv1.VolumeGroup, 0, len(seen.Groups))
	for _, g := range seen.Groups {
		out = append(out, s.toGroup(g))
	}
	return out
}

// toUnknown converts the groups that may be ours and that LVM could not report.
func toUnknown(s plan.Snapshot) []*agentv1.UnknownVolumeGroup {
	out := make([]*agentv1.UnknownVolumeGroup, 0, len(s.UnknownGroups))
	for _, u := range s.UnknownGroups {
		out = append(out, &agentv1.UnknownVolumeGroup{Name: u.Name, Uuid: u.UUID, OwnerUid: u.OwnerUID, Devices: u.Devices, Reason: u.Reason})
	}
	return out
}

var accesses = map[plan.Access]agentv1.VolumeGroupAccess{
	plan.AccessNone:  agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_NONE,
	plan.AccessOwn:   agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_OWN,
	plan.AccessOther: agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_OTHER,
}

func (s *Server) toGroup(g plan.Group) *agentv1.VolumeGroup {
	out := &agentv1.VolumeGroup{
		Name: g.Name, Uuid: g.UUID, OwnerUid: g.OwnerUID, SizeBytes: g.SizeBytes, FreeBytes: g.FreeBytes,
		ExtentBytes: g.ExtentBytes, LogicalVolumes: names(g), Partial: g.Partial, ThinPools: toPools(g), PartialVolumes: g.Lost(),
		Access: accesses[g.Access], SystemId: g.SystemID, Zeroing: toZeroing(g), StaleVolumes: g.AllStale(),
		OtherIds: volume.OtherIDs(s.cfg.NodeName, g), RemovingVolumes: volume.Removing(g),
	}
	if g.Moving != nil {
		out.MovingBytes, out.MovingFrom, out.MoveLeft = g.Moving.Bytes, g.MovingFrom(), g.MoveLeft()
	}
	for _, pv := range g.PVs {
		out.PhysicalVolumes = append(out.PhysicalVolumes, &agentv1.PhysicalVolume{
			Path: pv.Path, Uuid: pv.UUID, SizeBytes: pv.SizeBytes, FreeBytes: pv.FreeBytes,
		})
	}
	return out
}

// names are those of the volumes of a group, without tails: these are no volumes of anybody, and go with the volumes that grow by them.
func names(g plan.Group) []string {
	return slices.DeleteFunc(slices.Clone(g.Volumes), func(name string) bool {
		v, ok := g.Volume(name)
		return ok && v.TailOf != ""
	})
}

// toZeroing converts what is to be zeroed, under the names of the volumes that wait for it.
func toZeroing(g plan.Group) []*agentv1.VolumeZeroing {
	var out []*agentv1.VolumeZeroing
	for _, v := range volume.Unzeroed(g) {
		z := &agentv1.VolumeZeroing{Volume: v.Name, SizeBytes: v.SizeBytes, ZeroedBytes: v.ZeroedBytes}
		for _, grows := range g.LogicalVolumes {
			if v.TailOf != "" && grows.ID == v.TailOf {
				z.Volume = grows.Name
			}
		}
		out = append(out, z)
	}
	slices.SortFunc(out, func(a, b *agentv1.VolumeZeroing) int { return strings.Compare(a.GetVolume(), b.GetVolume()) })
	return out
}
