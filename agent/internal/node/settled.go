package node

import (
	"context"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
)

// settlePatience is how long a change waits for devices that something happened to a moment ago. A device that is plugged in, wiped or
// released is tested for users after it has been quiet for two seconds, and up to ten later while udev is busy.
const settlePatience = 15 * time.Second

// settled observes and decides. While nothing speaks against the decision but that a device is still settling, it waits for the device,
// not for ever, and decides anew on what is seen then.
func (e *Engine) settled(ctx context.Context, decide func(plan.Snapshot) (plan.Plan, error)) (plan.Snapshot, plan.Plan, error) {
	patient, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for {
		before, err := e.hub.observe(ctx)
		if err != nil {
			return plan.Snapshot{}, plan.Plan{}, err
		}
		seen := e.hub.number()
		p, err := decide(before)
		if !plan.Settling(err) {
			return before, p, err
		}
		if _, waitErr := e.hub.next(patient, seen); waitErr != nil {
			return before, p, err
		}
	}
}
