package csi

import (
	"context"

	"quarry.storage/quarry/pkg/volumeid"
)

// begin locks a volume and returns the context for work on it, which does not end with the caller's.
func (d *Driver) begin(ctx context.Context, id volumeid.ID) (context.Context, func(), error) {
	unlock, err := d.locks.TryLock(id.String())
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	return ctx, func() {
		cancel()
		unlock()
	}, nil
}
