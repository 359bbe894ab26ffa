package agents

import (
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// devicesOf converts a report that came now, from a node that booted the given time ago; 0 when its agent does not tell.
func devicesOf(in []*agentv1.Device, now time.Time, uptimeMillis int64) []decide.Device {
	out := make([]decide.Device, 0, len(in))
	for _, d := range in {
		v := deviceOf(d)
		v.Since = since(d, now, uptimeMillis)
		out = append(out, v)
	}
	return out
}

// since tells on this clock when a device appeared on the clock of its node. The report was under way for a while, so it may have been there
// for longer.
func since(d *agentv1.Device, now time.Time, uptimeMillis int64) time.Time {
	if uptimeMillis <= 0 || d.AppearedMillis == nil {
		return time.Time{}
	}
	return now.Add(-time.Duration(max(0, uptimeMillis-d.GetAppearedMillis())) * time.Millisecond)
}

func deviceOf(d *agentv1.Device) decide.Device {
	v := decide.Device{
		Path: d.GetPath(), KernelName: d.GetKernelName(), Type: d.GetType(), Links: d.GetLinks(), SizeBytes: d.GetSizeBytes(),
		Rotational: d.GetRotational(), LogicalSectorBytes: d.GetLogicalSectorBytes(), Model: d.GetModel(), Serial: d.GetSerial(), WWN: d.GetWwn(), Transport: d.GetTransport(),
		Digest: d.GetDigest(), PVUUID: d.GetPvUuid(), VolumeGroup: d.GetVolumeGroup(), OwnerUID: d.GetOwnerUid(),
		Wipeable: d.GetWipeable(),
	}
	for _, r := range d.GetRefusals() {
		v.Refusals = append(v.Refusals, v1alpha1.Refusal{Reason: r.GetReason(), Message: r.GetMessage()})
	}
	return v
}

func groupsOf(in []*agentv1.VolumeGroup) []decide.Group {
	out := make([]decide.Group, 0, len(in))
	for _, g := range in {
		out = append(out, groupOf(g))
	}
	return out
}

// otherNodes are the groups that the agent says are another node's.
func otherNodes(in []*agentv1.VolumeGroup, wanted bool) []*agentv1.VolumeGroup {
	return slices.DeleteFunc(slices.Clone(in), func(g *agentv1.VolumeGroup) bool {
		return (g.GetAccess() == agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_OTHER) != wanted
	})
}

func unknownOf(in []*agentv1.UnknownVolumeGroup) []decide.UnknownGroup {
	var out []decide.UnknownGroup
	for _, u := range in {
		out = append(out, decide.UnknownGroup{
			Name: u.GetName(), UUID: u.GetUuid(), OwnerUID: u.GetOwnerUid(), Devices: u.GetDevices(), Reason: u.GetReason(),
		})
	}
	return out
}

func groupOf(g *agentv1.VolumeGroup) decide.Group {
	v := decide.Group{
		Name: g.GetName(), UUID: g.GetUuid(), OwnerUID: g.GetOwnerUid(), SizeBytes: g.GetSizeBytes(), FreeBytes: g.GetFreeBytes(),
		ExtentBytes: g.GetExtentBytes(), Volumes: g.GetLogicalVolumes(), Partial: g.GetPartial(), Pools: poolsOf(g.GetThinPools()),
		PartialVolumes: g.GetPartialVolumes(), StaleVolumes: g.GetStaleVolumes(),
		OtherIDs: g.GetOtherIds(), RemovingVolumes: g.GetRemovingVolumes(),
		Unstamped: g.GetAccess() == agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_NONE, SystemID: g.GetSystemId(),
	}
	for _, p := range g.GetPhysicalVolumes() {
		v.PVs = append(v.PVs, decide.PV{
			Path: p.GetPath(), UUID: p.GetUuid(), SizeBytes: p.GetSizeBytes(), FreeBytes: p.GetFreeBytes(),
		})
	}
	if g.GetMovingBytes() > 0 || g.GetMovingFrom() != "" || g.GetMoveLeft() != "" {
		v.Moving = &decide.Moving{Bytes: g.GetMovingBytes(), From: g.GetMovingFrom(), Left: g.GetMoveLeft()}
	}
	for _, z := range g.GetZeroing() {
		v.Zeroing = append(v.Zeroing, decide.Zeroing{Volume: z.GetVolume(), SizeBytes: z.GetSizeBytes(), ZeroedBytes: z.GetZeroedBytes()})
	}
	return v
}

func identityOf(d decide.Device) *agentv1.DeviceIdentity {
	return &agentv1.DeviceIdentity{Path: d.Path, Wwn: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes, Digest: d.Digest}
}

// recordOf is the identity of a device that is given back: what is written on it decides, not what was seen of it.
func recordOf(d decide.Device) *agentv1.DeviceIdentity {
	id := identityOf(d)
	id.Digest = ""
	return id
}

func identities(devices []decide.Device, convert func(decide.Device) *agentv1.DeviceIdentity) []*agentv1.DeviceIdentity {
	out := make([]*agentv1.DeviceIdentity, 0, len(devices))
	for _, d := range devices {
		out = append(out, convert(d))
	}
	return out
}
