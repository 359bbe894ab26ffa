package quiet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
)

// testAt is when a device is to be tested; zero when it has been.
func (o *Observer) testAt(known *device) time.Time {
	switch {
	case known.use != plan.Untested || known.err != nil:
		return known.again
	case o.cfg.Quiet == 0:
		return time.Unix(0, 0)
	}
	return known.since.Add(o.cfg.Quiet)
}

// test looks for users of the devices that are due: it opens each exclusively, and then looks for those that this does not find. The
// results count for the devices as they were before the test.
func (o *Observer) test(ctx context.Context, snap plan.Snapshot, due map[int]*device) {
	var free []plan.Device
	var tested []*device
	for _, i := range slices.Sorted(maps.Keys(due)) {
		d := snap.Devices[i]
		ok, err := o.cfg.Devices.Exclusive(ctx, d)
		switch {
		case err != nil:
			o.note(due[i], plan.Untested, nil, fmt.Errorf("exclusive open: %w", err))
		case !ok:
			o.note(due[i], plan.Used, nil, nil)
		default:
			free, tested = append(free, d), append(tested, due[i])
		}
	}
	if len(free) == 0 {
		return
	}
	users, err := o.cfg.Devices.Users(ctx, free)
	for n, known := range tested {
		switch {
		case n < len(users) && len(users[n]) > 0:
			found := users[n]
			if err != nil {
				// Whoever reads the sentence must not take these for all.
				found = append(slices.Clone(found), "others, maybe: "+err.Error())
			}
			o.note(known, plan.Used, found, nil)
		case err != nil:
			o.note(known, plan.Untested, nil, fmt.Errorf("users: %w", err))
		default:
			o.note(known, plan.Unused, nil, nil)
		}
	}
}

// note remembers the result of a test. One that found no free device is repeated.
func (o *Observer) note(known *device, use plan.Use, users []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known.use, known.users, known.err, known.again = use, users, err, time.Time{}
	if use == plan.Unused {
		return
	}
	known.pause = min(max(2*known.pause, firstAgain), lastAgain)
	known.again = time.Now().Add(known.pause)
	o.arm(earlier(o.due, known.again))
}
