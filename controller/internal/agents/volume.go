package agents

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"quarry.storage/quarry/controller/internal/decide"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// listTimeout bounds a call that only looks.
const listTimeout = 30 * time.Second

// ListVolumes observes the volumes and thin pools of ours on a node, in one group or, when that is empty, in all.
func (p *Pool) ListVolumes(ctx context.Context, node, group string) ([]decide.Volume, []decide.ThinPool, error) {
	const call = "ListLogicalVolumes"
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var r *agentv1.ListLogicalVolumesResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewLogicalVolumeServiceClient(conn).ListLogicalVolumes(ctx, &agentv1.ListLogicalVolumesRequest{Group: group})
		return err
	})
	if err != nil {
		return nil, nil, faultOf(node, call, err)
	}
	return volumesOf(r.GetVolumes()), poolsOf(r.GetPools()), nil
}

// CreateVolume makes a volume or a snapshot, and returns it as it is when it was there already.
func (p *Pool) CreateVolume(ctx context.Context, node string, v decide.VolumeSpec) (decide.Volume, error) {
	const call = "CreateLogicalVolume"
	var r *agentv1.CreateLogicalVolumeResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewLogicalVolumeServiceClient(conn).CreateLogicalVolume(ctx, &agentv1.CreateLogicalVolumeRequest{
			Group: v.Group, OwnerUid: v.Owner, GroupUuid: v.GroupUUID, Name: v.Name, Id: v.ID, SizeBytes: v.SizeBytes, ThinPool: v.ThinPool,
			Source: v.Source, Snapshot: v.Snapshot, OverprovisionPercent: v.OverprovisionPercent, Zeroing: zeroingOf(v.Zero),
		})
		return err
	})
	if err != nil {
		return decide.Volume{}, faultOf(node, call, err)
	}
	made := volumeOf(r.GetVolume())
	made.GroupUUID = r.GetGroupUuid()
	p.editGroup(node, decide.GroupRef{Name: v.Group, UUID: made.GroupUUID}, func(g *decide.Group) { addVolume(g, made) })
	return made, nil
}

// DeleteVolume removes a volume or a snapshot; one that is absent is no error.
func (p *Pool) DeleteVolume(ctx context.Context, node string, v decide.VolumeSpec) error {
	const call = "DeleteLogicalVolume"
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := agentv1.NewLogicalVolumeServiceClient(conn).DeleteLogicalVolume(ctx, &agentv1.DeleteLogicalVolumeRequest{
			Group: v.Group, OwnerUid: v.Owner, GroupUuid: v.GroupUUID, Name: v.Name, Id: v.ID, OnlyUnused: v.OnlyUnused,
			Discard: v.Discard,
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.editGroup(node, decide.GroupRef{Name: v.Group, UUID: v.GroupUUID}, func(g *decide.Group) {
		g.Volumes = slices.DeleteFunc(slices.Clone(g.Volumes), func(name string) bool { return name == v.Name })
	})
	return nil
}

// ResizeVolume makes a volume at least as large as wanted.
func (p *Pool) ResizeVolume(ctx context.Context, node string, v decide.VolumeSpec) (decide.Volume, error) {
	const call = "ResizeLogicalVolume"
	var r *agentv1.ResizeLogicalVolumeResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewLogicalVolumeServiceClient(conn).ResizeLogicalVolume(ctx, &agentv1.ResizeLogicalVolumeRequest{
			Group: v.Group, OwnerUid: v.Owner, GroupUuid: v.GroupUUID, Name: v.Name, Id: v.ID, SizeBytes: v.SizeBytes,
			OverprovisionPercent: v.OverprovisionPercent, Zeroing: zeroingOf(v.Zero),
		})
		return err
	})
	if err != nil {
		return decide.Volume{}, faultOf(node, call, err)
	}
	return volumeOf(r.GetVolume()), nil
}

func zeroingOf(z decide.Zero) agentv1.Zeroing {
	switch z {
	case decide.ZeroAll:
		return agentv1.Zeroing_ZEROING_ALL
	case decide.ZeroRaw:
		return agentv1.Zeroing_ZEROING_RAW
	}
	return agentv1.Zeroing_ZEROING_NOTHING
}

// EnsureThinPool makes a thin pool, or grows it to the size that is wanted.
func (p *Pool) EnsureThinPool(ctx context.Context, node string, t decide.ThinPoolSpec) (decide.ThinPool, error) {
	const call = "EnsureThinPool"
	if err := p.Unshared(node, call, p.ofGroup(node, t.Group, t.Owner)...); err != nil {
		return decide.ThinPool{}, err
	}
	var r *agentv1.EnsureThinPoolResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewLogicalVolumeServiceClient(conn).EnsureThinPool(ctx, &agentv1.EnsureThinPoolRequest{
			Group: t.Group, OwnerUid: t.Owner, GroupUuid: t.UUID, Name: t.Name, SizeBytes: t.SizeBytes, Percent: t.Percent, ChunkBytes: t.ChunkBytes,
		})
		return err
	})
	if err != nil {
		return decide.ThinPool{}, faultOf(node, call, err)
	}
	made := poolOf(r.GetPool())
	p.editGroup(node, decide.GroupRef{Name: t.Group, UUID: t.UUID}, func(g *decide.Group) { putPool(g, made) })
	return made, nil
}

// RepairThinPool repairs the metadata of a damaged thin pool of a group of the owner, as it was when its agent told the digest.
func (p *Pool) RepairThinPool(ctx context.Context, node string, group decide.GroupRef, pool, digest string) error {
	const call = "RepairThinPool"
	if err := p.Unshared(node, call, p.ofGroup(node, group.Name, group.Owner)...); err != nil {
		return err
	}
	var r *agentv1.RepairThinPoolResponse
	err := p.callWithin(ctx, repairTimeout, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewLogicalVolumeServiceClient(conn).RepairThinPool(ctx, &agentv1.RepairThinPoolRequest{
			Group: group.Name, OwnerUid: group.Owner, GroupUuid: group.UUID, Name: pool, RepairDigest: digest,
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.editGroup(node, group, func(g *decide.Group) { putPool(g, poolOf(r.GetPool())) })
	return nil
}

// putPool adds or replaces a thin pool in the report, unless the watch was faster.
func putPool(g *decide.Group, pool decide.ThinPool) {
	old, known := g.Pool(pool.Name)
	g.Pools = slices.DeleteFunc(slices.Clone(g.Pools), func(p decide.ThinPool) bool { return p.Name == pool.Name })
	g.Pools = append(g.Pools, pool)
	slices.SortFunc(g.Pools, func(a, b decide.ThinPool) int { return strings.Compare(a.Name, b.Name) })
	if !known || old.SizeBytes < pool.SizeBytes {
		g.FreeBytes = max(0, g.FreeBytes-pool.SizeBytes+old.SizeBytes)
	}
}

// addVolume adds a volume that was made just now to the report, unless the watch was faster.
func addVolume(g *decide.Group, v decide.Volume) {
	if slices.Contains(g.Volumes, v.Name) {
		return
	}
	g.Volumes = append(slices.Clone(g.Volumes), v.Name)
	slices.Sort(g.Volumes)
	if v.ThinPool == "" {
		g.FreeBytes = max(0, g.FreeBytes-v.SizeBytes)
	}
}

// editGroup changes what the last report says about one group.
func (p *Pool) editGroup(node string, group decide.GroupRef, change func(*decide.Group)) {
	p.merge(node, func(n *decide.Node) {
		groups := slices.Clone(n.Groups)
		for i := range groups {
			if groups[i].Name == group.Name && (group.UUID == "" || groups[i].UUID == group.UUID) {
				change(&groups[i])
			}
		}
		n.Groups = groups
	})
}

func volumesOf(in []*agentv1.LogicalVolume) []decide.Volume {
	out := make([]decide.Volume, 0, len(in))
	for _, v := range in {
		out = append(out, volumeOf(v))
	}
	return out
}

func volumeOf(v *agentv1.LogicalVolume) decide.Volume {
	out := decide.Volume{
		Group: v.GetGroup(), Name: v.GetName(), ID: v.GetId(), SizeBytes: v.GetSizeBytes(), ThinPool: v.GetThinPool(),
		Source: v.GetSource(), Snapshot: v.GetSnapshot(), Active: v.GetActive(), Open: v.GetOpen(), Health: v.GetHealth(),
		Unused: v.GetUnused(),
	}
	if s := v.GetCreatedUnixSeconds(); s > 0 {
		out.Created = time.Unix(s, 0)
	}
	return out
}

func poolsOf(in []*agentv1.ThinPool) []decide.ThinPool {
	out := make([]decide.ThinPool, 0, len(in))
	for _, p := range in {
		out = append(out, poolOf(p))
	}
	return out
}

func poolOf(p *agentv1.ThinPool) decide.ThinPool {
	return decide.ThinPool{
		Group: p.GetGroup(), Name: p.GetName(), SizeBytes: p.GetSizeBytes(), DataPermyriad: p.GetDataUsedPermyriad(),
		MetadataPermyriad: p.GetMetadataUsedPermyriad(), VirtualBytes: p.GetVirtualBytes(), UsageUnknown: p.GetUsageUnknown(),
		Damage: p.GetDamage(), DamagedVolumes: p.GetDamagedVolumes(),
		RepairDigest: p.GetRepairDigest(), KeptMetadata: p.GetKeptMetadata(),
	}
}
