package volume

import (
	"fmt"
	"math"
	"math/big"

	"quarry.storage/quarry/agent/internal/plan"
)

// mayGrowPool refuses what the pool does not take: so many virtual bytes more for a volume. The given error says that the pool's limit
// forbids it.
func (g group) mayGrowPool(name, taker string, more int64, percent int32, over error) error {
	p, exists := g.Pool(name)
	switch {
	case !exists:
		return fmt.Errorf("thin pool %s in group %s: %w", name, g.Name, plan.ErrNotFound)
	case !p.Ours:
		return fmt.Errorf("thin pool %s in group %s carries no tag of ours: %w", name, g.Name, plan.ErrNotOurs)
	case p.Damage != "":
		return g.damaged(taker, p)
	case p.UsageUnknown:
		return fmt.Errorf("volume %s in thin pool %s/%s: %w: it is not active", taker, g.Name, name, plan.ErrUsageUnknown)
	case full(p):
		return fmt.Errorf("volume %s in thin pool %s/%s, which is full (data %s, metadata %s, health %q): %w",
			taker, g.Name, name, percentText(p.DataPermyriad), percentText(p.MetadataPermyriad), p.Health, plan.ErrNoRoom)
	case percent == 0:
		return nil
	}
	if limit := share(p.SizeBytes, percent); more > limit-p.VirtualBytes {
		return fmt.Errorf("%d bytes more for volume %s in thin pool %s/%s: its limit is %d bytes, which is %d %% of %d, and %d are given out: %w",
			more, taker, g.Name, name, limit, percent, p.SizeBytes, p.VirtualBytes, over)
	}
	return nil
}

// metadataReserve is the share of metadata, in hundredths of a percent, above which LVM makes no volume in a pool.
const metadataReserve = 9500

// full reports whether LVM makes no volume in the pool.
func full(p plan.Pool) bool {
	return p.DataPermyriad >= 10000 || p.MetadataPermyriad >= metadataReserve || p.Health != ""
}

func percentText(permyriad int32) string {
	return fmt.Sprintf("%d.%02d %%", permyriad/100, permyriad%100)
}

// share is that many percent of a size, or the largest number that can be counted.
func share(size int64, percent int32) int64 {
	n := new(big.Int).Mul(big.NewInt(size), big.NewInt(int64(percent)))
	if n.Div(n, big.NewInt(100)); n.IsInt64() {
		return n.Int64()
	}
	return math.MaxInt64
}
