//go:build hostroot

package conformance_test

import (
	"context"
	"errors"
	"sync"

	"quarry.storage/quarry/agent/internal/apply"
)

// errDied is what every change gets after the death that was asked for.
var errDied = errors.New("the agent died")

// faulty counts the changes that pass to the tools, and dies before or after one of them.
type faulty struct {
	apply.Groups
	apply.Disks
	apply.Volumes

	mu    sync.Mutex
	steps int
	at    int
	after bool
	dead  bool
}

// Steps counts the changes so far.
func (f *faulty) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps
}

// Crash arms a death; zero takes it back.
func (f *faulty) Crash(n int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.after = 0, after
	if n > 0 {
		f.at = f.steps + n
	}
}

func (f *faulty) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.dead = 0, false
}

// change passes one change on, unless the agent is dead or dies now.
func (f *faulty) change(effect func() error) error {
	f.mu.Lock()
	due := f.at == f.steps+1
	f.dead = f.dead || due && !f.after
	dead := f.dead
	f.mu.Unlock()
	if dead {
		return errDied
	}
	if err := effect(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps++
	if due {
		f.dead = true
		return errDied
	}
	return nil
}

func (f *faulty) CreatePV(ctx context.Context, device, uuid string) error {
	return f.change(func() error { return f.Groups.CreatePV(ctx, device, uuid) })
}

func (f *faulty) CreateVG(ctx context.Context, name string, tags, devices []string) error {
	return f.change(func() error { return f.Groups.CreateVG(ctx, name, tags, devices) })
}

func (f *faulty) ExtendVG(ctx context.Context, name string, group, devices []string) error {
	return f.change(func() error { return f.Groups.ExtendVG(ctx, name, group, devices) })
}

func (f *faulty) ReduceVG(ctx context.Context, name string, group, devices []string) error {
	return f.change(func() error { return f.Groups.ReduceVG(ctx, name, group, devices) })
}

func (f *faulty) ReduceMissing(ctx context.Context, name string, group []string) error {
	return f.change(func() error { return f.Groups.ReduceMissing(ctx, name, group) })
}

func (f *faulty) RemoveVG(ctx context.Context, name string, group []string) error {
	return f.change(func() error { return f.Groups.RemoveVG(ctx, name, group) })
}

func (f *faulty) Wipe(ctx context.Context, path, digest string, verify apply.Verify) error {
	return f.change(func() error { return f.Disks.Wipe(ctx, path, digest, verify) })
}

func (f *faulty) Release(ctx context.Context, path, pvUUID string, verify apply.Verify) error {
	return f.change(func() error { return f.Disks.Release(ctx, path, pvUUID, verify) })
}
