package disk

import (
	"context"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/plan"
)

// Hold keeps tests for users away from the devices that the plan touches: a tool that needs one exclusively for a moment would fail.
// Device-mapper too claims the devices of a group, when the first volume of the group is activated. Those that the plan changes are
// locked as well, so that udev probes none of them in the middle of the work. On release udev looks at each of these, and its database has
// what it saw when release returns. A release with a context that has ended gives the devices back and does no more.
//
// Whatever else belongs around a change of what devices carry goes here, and nowhere else.
func (a Adapter) Hold(ctx context.Context, p plan.Plan) (release func(context.Context), err error) {
	free, err := a.Tool.Reserve(ctx, p.Touches()...)
	if err != nil {
		return nil, refused(err)
	}
	changes := p.Changes()
	if len(changes) == 0 {
		return func(context.Context) { free() }, nil
	}
	unlock, err := a.Tool.Lock(ctx, changes...)
	if err != nil {
		free()
		return nil, refused(err)
	}
	return func(ctx context.Context) {
		defer free()
		marks := a.marks(ctx, changes)
		unlock()
		if ctx.Err() != nil {
			return
		}
		if err := a.Udev.Announce(ctx, marks...); err != nil {
			// The work is done. Until udev has looked again the devices are refused for what udev knew before.
			logr.FromContextOrDiscard(ctx).Error(err, "Telling udev of a change", "devices", changes)
		}
	}, nil
}

// marks are taken under the locks: while nobody else probes the devices, their records are the last ones of before.
func (a Adapter) marks(ctx context.Context, devices []string) []block.Mark {
	var out []block.Mark
	for _, path := range devices {
		m, err := a.Udev.Mark(path)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Reading the record of a device", "device", path)
			continue
		}
		out = append(out, m)
	}
	return out
}
