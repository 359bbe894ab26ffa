package ceph

import (
	"context"
	"time"

	"quarry.storage/quarry/controller/internal/ceph/subvolume"
)

const (
	// soonest and seldom are the first and the longest pause between two looks at a copy: a small one is whole at once, and of a large one Ceph's manager is not asked all the time.
	soonest = 500 * time.Millisecond
	seldom  = 4 * time.Second
	// waiters is how many calls wait for copies at a time. The provisioner has up to a hundred under way, and Ceph's manager makes four copies at a time unless it is told otherwise.
	waiters = 4
)

// await waits for a copy, and returns it as it is then. Callers ask again for one that takes longer, or that nobody waits for since enough others are waited for.
func (b *Backend) await(ctx context.Context, s site, v subvolume.Volume) (subvolume.Volume, error) {
	select {
	case b.waiting <- struct{}{}:
		defer func() { <-b.waiting }()
	default:
		return v, nil
	}
	pause := soonest
	for end := time.Now().Add(b.Patience); v.State == subvolume.Copying && time.Now().Before(end); pause = min(2*pause, seldom) {
		select {
		case <-ctx.Done():
			return v, nil
		case <-time.After(min(pause, time.Until(end))):
		}
		now, err := s.Volume(ctx, v.Name)
		if err != nil {
			return v, err
		}
		v = now
	}
	return v, nil
}
