package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/repair"
	"quarry.storage/quarry/agent/internal/plan/volume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// logicalVolumeService makes, grows, copies and removes volumes in groups that carry our tag.
type logicalVolumeService struct {
	agentv1.UnimplementedLogicalVolumeServiceServer
	*Server
}

// ListLogicalVolumes observes the volumes and thin pools of ours. A list that may lack one is an error.
func (s *logicalVolumeService) ListLogicalVolumes(
	ctx context.Context, req *agentv1.ListLogicalVolumesRequest,
) (*agentv1.ListLogicalVolumesResponse, error) {
	if group := req.GetGroup(); group != "" {
		if err := plan.CheckGroupName(group); err != nil {
			return nil, err
		}
	}
	seen, err := s.node.Observe(ctx)
	if err != nil {
		return nil, err
	}
	if group := req.GetGroup(); group != "" {
		err = errors.Join(seen.Absent(group, "", s.node.Policy()), seen.Here(group))
	} else {
		err = reported(seen)
	}
	if err != nil {
		return nil, err
	}
	resp := &agentv1.ListLogicalVolumesResponse{}
	for _, g := range seen.Groups {
		if req.GetGroup() != "" && g.Name != req.GetGroup() || !g.Usable() {
			continue
		}
		resp.Volumes = append(resp.Volumes, toVolumes(g)...)
		resp.Pools = append(resp.Pools, toPools(g)...)
	}
	return resp, nil
}

// CreateLogicalVolume makes a volume.
func (s *logicalVolumeService) CreateLogicalVolume(
	ctx context.Context, req *agentv1.CreateLogicalVolumeRequest,
) (*agentv1.CreateLogicalVolumeResponse, error) {
	want, err := validCreate(req)
	if err != nil {
		return nil, err
	}
	done, groupUUID, err := s.node.CreateVolume(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.CreateLogicalVolumeResponse{Volume: toVolume(want.Group, done), GroupUuid: groupUUID}, nil
}

// DeleteLogicalVolume removes a volume.
func (s *logicalVolumeService) DeleteLogicalVolume(
	ctx context.Context, req *agentv1.DeleteLogicalVolumeRequest,
) (*agentv1.DeleteLogicalVolumeResponse, error) {
	want, err := validVolume(req)
	if err != nil {
		return nil, err
	}
	want.OnlyUnused, want.Discard = req.GetOnlyUnused(), req.GetDiscard()
	if err := s.node.DeleteVolume(ctx, want); err != nil {
		return nil, err
	}
	return &agentv1.DeleteLogicalVolumeResponse{}, nil
}

// ResizeLogicalVolume makes a volume larger.
func (s *logicalVolumeService) ResizeLogicalVolume(
	ctx context.Context, req *agentv1.ResizeLogicalVolumeRequest,
) (*agentv1.ResizeLogicalVolumeResponse, error) {
	want, err := validResize(req)
	if err != nil {
		return nil, err
	}
	done, err := s.node.ResizeVolume(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.ResizeLogicalVolumeResponse{Volume: toVolume(want.Group, done)}, nil
}

// EnsureThinPool makes or grows a thin pool.
func (s *logicalVolumeService) EnsureThinPool(
	ctx context.Context, req *agentv1.EnsureThinPoolRequest,
) (*agentv1.EnsureThinPoolResponse, error) {
	want, err := validPool(req)
	if err != nil {
		return nil, err
	}
	pool, err := s.node.EnsurePool(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.EnsureThinPoolResponse{Pool: toPool(want.Group, pool)}, nil
}

// RepairThinPool repairs the metadata of a damaged thin pool.
func (s *logicalVolumeService) RepairThinPool(
	ctx context.Context, req *agentv1.RepairThinPoolRequest,
) (*agentv1.RepairThinPoolResponse, error) {
	want := repair.Spec{
		Group: req.GetGroup(), OwnerUID: req.GetOwnerUid(), GroupUUID: req.GetGroupUuid(), Pool: req.GetName(), Digest: req.GetRepairDigest(),
	}
	if err := validGroup(want.Group, want.OwnerUID); err != nil {
		return nil, err
	}
	if err := volume.CheckName(want.Group, want.Pool); err != nil {
		return nil, err
	}
	if want.Digest == "" {
		return nil, fmt.Errorf("repair_digest is required: %w", plan.ErrInvalid)
	}
	g, pool, err := s.node.RepairPool(ctx, want)
	if err != nil {
		return nil, err
	}
	return &agentv1.RepairThinPoolResponse{Pool: withDamage(g, pool, toPool(g.Name, pool))}, nil
}

// toVolume converts one volume. LVM tells the creation time and the UUID of a volume that was made just now in its next report only.
func toVolume(group string, v plan.Volume) *agentv1.LogicalVolume {
	if v.CreatedUnix == 0 {
		v.CreatedUnix = time.Now().Unix()
	}
	return &agentv1.LogicalVolume{
		Group: group, Name: v.Name, Id: v.ID, Uuid: v.UUID, SizeBytes: v.SizeBytes, ThinPool: v.Pool, Source: v.Source,
		Snapshot: v.Snapshot, Active: v.Active, Open: v.Open, Health: v.Health, CreatedUnixSeconds: v.CreatedUnix,
		Unused: v.Unused(),
	}
}

func toVolumes(g plan.Group) []*agentv1.LogicalVolume {
	var out []*agentv1.LogicalVolume
	for _, v := range g.LogicalVolumes {
		if v.ID != "" {
			out = append(out, toVolume(g.Name, withPoolHealth(g, v)))
		}
	}
	return out
}

// withPoolHealth makes a volume tell that it is suspended, and a thin one what is wrong with its pool too.
func withPoolHealth(g plan.Group, v plan.Volume) plan.Volume {
	p, ok := g.Pool(v.Pool)
	switch {
	case v.Suspended && v.Health == "":
		v.Health = "its device is suspended: a command that changed it was killed, or somebody suspended it"
	case g.IsStale(v) && v.Health == "":
		v.Health = "its device leads to a disk that dropped off: it is mapped anew once nobody has it open"
	case !ok || v.Health != "":
	case p.Suspended:
		v.Health = fmt.Sprintf("thin pool %s: its device is suspended: a command that changed it was killed, or somebody suspended it", p.Name)
	case p.Damage != "":
		v.Health = fmt.Sprintf("thin pool %s is damaged: %s", p.Name, p.Damage)
	case p.Health != "":
		v.Health = fmt.Sprintf("thin pool %s: %s", p.Name, p.Health)
	case p.DataPermyriad >= 10000:
		v.Health = fmt.Sprintf("thin pool %s: out of data space", p.Name)
	}
	return v
}

func toPools(g plan.Group) []*agentv1.ThinPool {
	var out []*agentv1.ThinPool
	for _, p := range g.Pools {
		if p.Ours {
			out = append(out, withDamage(g, p, toPool(g.Name, p)))
		}
	}
	return out
}

// withDamage adds what is wrong with a pool, which volumes that concerns, and what a repair would work on.
func withDamage(g plan.Group, p plan.Pool, out *agentv1.ThinPool) *agentv1.ThinPool {
	out.KeptMetadata = p.Kept
	if p.Damage != "" || p.UsageUnknown {
		out.RepairDigest = repair.Digest(g, p)
	}
	if out.Damage = p.Damage; p.Damage == "" {
		return out
	}
	for _, v := range g.LogicalVolumes {
		if v.Pool == p.Name {
			out.DamagedVolumes = append(out.DamagedVolumes, v.Name)
		}
	}
	return out
}

func toPool(group string, p plan.Pool) *agentv1.ThinPool {
	return &agentv1.ThinPool{
		Group: group, Name: p.Name, SizeBytes: p.SizeBytes, DataUsedPermyriad: p.DataPermyriad,
		MetadataUsedPermyriad: p.MetadataPermyriad, VirtualBytes: p.VirtualBytes, UsageUnknown: p.UsageUnknown,
	}
}
