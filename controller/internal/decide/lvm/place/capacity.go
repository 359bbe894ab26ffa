package place

import (
	"math"
	"math/bits"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
)

// fullMetadata is the share of a pool's metadata, in hundredths of a percent, above which LVM makes no volume in it.
const fullMetadata = 9500

// Room returns the room on a host. A host that takes no new volumes has none.
func Room(c Class, h Host) volume.Capacity {
	if h.problem() != "" || c.Deleting {
		return volume.Capacity{}
	}
	extent := max(h.Group.ExtentBytes, 1)
	free := h.Group.FreeBytes
	if c.Thin.Pool != "" {
		free = thinRoom(c.Thin, h.Group)
	}
	free = max(0, free/extent*extent)
	return volume.Capacity{Available: free, Largest: free, Smallest: extent}
}

// thinRoom is what may still be given out of a pool: up to its limit or, without one, what no data is on yet.
func thinRoom(t Thin, g *decide.Group) int64 {
	pool, ok := g.Pool(t.Pool)
	switch {
	case !ok || pool.UsageUnknown || pool.DataPermyriad >= 10000 || pool.MetadataPermyriad >= fullMetadata:
		return 0
	case t.Percent > 0:
		return share(pool.SizeBytes, int64(t.Percent), 100) - pool.VirtualBytes
	}
	return share(pool.SizeBytes, 10000-int64(pool.DataPermyriad), 10000)
}

// share is a fraction of a size, as much as can be counted. All are at least 0, and the divisor is above.
func share(size, n, of int64) int64 {
	hi, lo := bits.Mul64(uint64(max(size, 0)), uint64(max(n, 0)))
	if hi >= uint64(of) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return int64(min(q, math.MaxInt64))
}
