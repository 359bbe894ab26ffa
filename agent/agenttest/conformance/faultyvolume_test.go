//go:build hostroot

package conformance_test

import (
	"context"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

func (f *faulty) CreateLV(ctx context.Context, s volume.CreateLV) error {
	return f.change(func() error { return f.Volumes.CreateLV(ctx, s) })
}

func (f *faulty) ExtendLV(ctx context.Context, s volume.ExtendLV) error {
	return f.change(func() error { return f.Volumes.ExtendLV(ctx, s) })
}

func (f *faulty) ActivateLV(ctx context.Context, s volume.ActivateLV) error {
	return f.change(func() error { return f.Volumes.ActivateLV(ctx, s) })
}

func (f *faulty) SettleLV(ctx context.Context, s volume.SettleLV) error {
	return f.change(func() error { return f.Volumes.SettleLV(ctx, s) })
}

func (f *faulty) DeactivateLV(ctx context.Context, s plan.DeactivatePool) error {
	return f.change(func() error { return f.Volumes.DeactivateLV(ctx, s) })
}

func (f *faulty) RemoveLV(ctx context.Context, s volume.RemoveLV) error {
	return f.change(func() error { return f.Volumes.RemoveLV(ctx, s) })
}

func (f *faulty) CreatePool(ctx context.Context, s volume.CreatePool) error {
	return f.change(func() error { return f.Volumes.CreatePool(ctx, s) })
}

func (f *faulty) RemovePool(ctx context.Context, s plan.RemovePool) error {
	return f.change(func() error { return f.Volumes.RemovePool(ctx, s) })
}
