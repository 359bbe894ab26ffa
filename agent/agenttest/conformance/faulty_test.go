//go:build hostroot

package conformance_test

import (
	"context"
	"errors"
	"sync"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/plan"
)

// errDied is what every change gets after the death that was asked for.
var errDied = errors.New("the agent died")

// faulty counts the changes that pass to the tools, and dies before or after one of them.
type faulty struct {
	adapter apply.Adapter
	guard   apply.Guard

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

// Perform passes one step on to the tools.
func (f *faulty) Perform(ctx context.Context, step plan.Step) error {
	return f.change(func() error { return f.adapter.Perform(ctx, step) })
}

// Hold lets go of the devices of an agent that died as the kernel does: nobody is told.
func (f *faulty) Hold(ctx context.Context, p plan.Plan) (func(context.Context), error) {
	release, err := f.guard.Hold(ctx, p)
	return func(ctx context.Context) {
		f.mu.Lock()
		dead := f.dead
		f.mu.Unlock()
		if dead {
			var kill context.CancelFunc
			ctx, kill = context.WithCancel(ctx)
			kill()
		}
		release(ctx)
	}, err
}
