package volume

import (
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
)

// PoolSpec is the thin pool that a caller wants: of a size in bytes, or of a share of the group in percent.
type PoolSpec struct {
	Group, OwnerUID, Name string
	// GroupUUID is that of the group that is meant; empty for any of that name.
	GroupUUID string
	SizeBytes int64
	Percent   int32
	// ChunkBytes of a new pool; chosen as LVM does when zero.
	ChunkBytes int64
}

// PoolPlan is what to do for one thin pool, and how large it is afterwards.
type PoolPlan struct {
	plan.Plan
	Pool plan.Pool
}

const (
	kilo = 1 << 10
	mega = 1 << 20
	giga = 1 << 30

	// minChunk is LVM's smallest chunk, and its choice for all but large pools.
	minChunk = 64 * kilo
	// chunkMetadata is what LVM reckons for the metadata of one chunk, optimalMetadata what it chooses the chunk size for.
	chunkMetadata   = 64
	optimalMetadata = 128 * mega
	// minMetadata and maxMetadata bound the metadata of a pool; thin-pool takes no more than 15.8 GiB.
	minMetadata = 4 * mega
	maxMetadata = 15 * giga
)

// EnsurePool plans how the thin pool comes to have at least the size. It never shrinks, and its chunk size stays.
func EnsurePool(s plan.Snapshot, want PoolSpec) (PoolPlan, error) {
	p, err := ensurePool(s, want)
	if err != nil {
		return p, err
	}
	g, err := groupOf(s, plan.GroupSpec{Name: want.Group, OwnerUID: want.OwnerUID, UUID: want.GroupUUID})
	if err != nil {
		return p, err
	}
	p.Steps, p.Pool.Suspended = append(g.resumePool(want.Name), p.Steps...), false
	return p, nil
}

// ensurePool is EnsurePool of a pool that is at work.
func ensurePool(s plan.Snapshot, want PoolSpec) (PoolPlan, error) {
	g, err := groupOf(s, plan.GroupSpec{Name: want.Group, OwnerUID: want.OwnerUID, UUID: want.GroupUUID})
	if err != nil {
		return PoolPlan{}, err
	}
	size, err := g.roundUp(want.SizeBytes)
	if err != nil {
		return PoolPlan{}, err
	}
	if want.Percent > 0 {
		size = share(g.SizeBytes, want.Percent) / g.ExtentBytes * g.ExtentBytes
	}
	p, exists := g.Pool(want.Name)
	if _, taken := g.Volume(want.Name); taken || exists && !p.Ours {
		return PoolPlan{}, fmt.Errorf("%s in group %s is no thin pool of ours: %w", want.Name, g.Name, plan.ErrAlreadyExists)
	}
	if exists && p.SizeBytes >= size {
		return PoolPlan{Pool: p}, nil
	}
	if err := g.whole(); err != nil {
		return PoolPlan{}, err
	}
	if exists {
		return g.growPool(p, size, want)
	}
	return g.createPool(size, want)
}

// createPool leaves room for the metadata, and for the spare of it that LVM keeps for repairs. Of a share of the group it takes what
// there is room for; a size in bytes has to fit.
func (g group) createPool(size int64, want PoolSpec) (PoolPlan, error) {
	chunk := want.ChunkBytes
	if chunk == 0 {
		chunk = chunkFor(size)
	}
	meta := g.metadataFor(size, chunk)
	spare := max(meta, g.largestMetadata()) - g.largestMetadata()
	if room := g.FreeBytes - meta - spare; size > room {
		if want.Percent == 0 || room < g.ExtentBytes {
			return PoolPlan{}, fmt.Errorf("thin pool %s of %d bytes with %d of metadata in group %s, which has %d of %d bytes free: %w",
				want.Name, size, meta+spare, g.Name, g.FreeBytes, g.SizeBytes, plan.ErrNoRoom)
		}
		size = room / g.ExtentBytes * g.ExtentBytes
	}
	p := plan.Pool{Name: want.Name, Ours: true, SizeBytes: size, MetadataBytes: meta, Active: true}
	step := CreatePool{
		Group: g.Ref(), Name: p.Name, Tags: []string{plan.TagPool}, SizeBytes: size, MetadataBytes: meta, ChunkBytes: chunk,
		Reason: plan.Reason(fmt.Sprintf("thin pool %s does not exist in group %s", p.Name, g.Name)),
	}
	return PoolPlan{Pool: p, Plan: does(step)}, nil
}

// growPool makes the metadata grow in the same proportion as the data.
func (g group) growPool(p plan.Pool, size int64, want PoolSpec) (PoolPlan, error) {
	switch {
	case p.Damage != "":
		return PoolPlan{}, fmt.Errorf("thin pool %s/%s: %w: %s", g.Name, p.Name, plan.ErrDamaged, p.Damage)
	case !p.Active:
		// LVM would activate it to make it grow, without looking at how its metadata begins.
		return PoolPlan{}, fmt.Errorf("thin pool %s/%s does not grow: %w: it is not active", g.Name, p.Name, plan.ErrUsageUnknown)
	case p.Stale:
		return PoolPlan{}, fmt.Errorf("thin pool %s in group %s leads to a disk that dropped off: %w for it, and it does not grow until whoever has its volumes open ends",
			p.Name, g.Name, plan.ErrPartial)
	}
	meta := p.MetadataBytes
	if p.SizeBytes > 0 {
		grown, err := g.roundUp(int64(float64(meta) * (float64(size) / float64(p.SizeBytes))))
		if err != nil {
			return PoolPlan{}, err
		}
		meta = max(meta, min(grown, maxMetadata/g.ExtentBytes*g.ExtentBytes))
	}
	more := meta - p.MetadataBytes
	spare := max(meta, g.largestMetadata()) - g.largestMetadata()
	if room := g.FreeBytes - more - spare; size-p.SizeBytes > room {
		if want.Percent == 0 {
			return PoolPlan{}, fmt.Errorf("%d bytes more for thin pool %s in group %s, which has %d of %d bytes free: %w",
				size-p.SizeBytes+more+spare, p.Name, g.Name, g.FreeBytes, g.SizeBytes, plan.ErrNoRoom)
		}
		if room < g.ExtentBytes {
			return PoolPlan{Pool: p}, nil
		}
		size = p.SizeBytes + room/g.ExtentBytes*g.ExtentBytes
	}
	step := ExtendLV{
		Group: g.Ref(), Name: p.Name, SizeBytes: size,
		Reason: plan.Reason(fmt.Sprintf("thin pool has %d bytes and %d are wanted", p.SizeBytes, size)),
	}
	if meta > p.MetadataBytes {
		step.MetadataBytes = meta
	}
	p.SizeBytes, p.MetadataBytes = size, meta
	return PoolPlan{Pool: p, Plan: does(step)}, nil
}

// chunkFor chooses as LVM does: the smallest chunk with which the metadata stays below what LVM calls optimal.
func chunkFor(size int64) int64 {
	chunk := int64(minChunk)
	for size/chunk > optimalMetadata/chunkMetadata && chunk < giga {
		chunk *= 2
	}
	return chunk
}

// metadataFor is twice what LVM reckons: snapshots share chunks, and each snapshot needs its own map.
func (g group) metadataFor(size, chunk int64) int64 {
	meta := min(max(size/max(chunk, minChunk)*2*chunkMetadata, minMetadata), maxMetadata)
	return (meta + g.ExtentBytes - 1) / g.ExtentBytes * g.ExtentBytes
}

// largestMetadata is the size of the spare that LVM keeps already.
func (g group) largestMetadata() int64 {
	var out int64
	for _, p := range g.Pools {
		out = max(out, p.MetadataBytes)
	}
	return out
}
