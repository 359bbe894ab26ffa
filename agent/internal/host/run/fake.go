package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// ErrUnscripted is returned by Fake for a call that its script does not have.
var ErrUnscripted = errors.New("unscripted call")

// Step is one expected call of a Fake and the answer to it.
type Step struct {
	// Argv must equal the path and the arguments of the call. Nil accepts any.
	Argv []string
	// Result is handed back; an exit code other than zero becomes an *Error.
	Result Result
	// Err is handed back instead, if set.
	Err error
}

// Fake plays a script: each call must be the next step. A call that is not fails loudly.
type Fake struct {
	mu    sync.Mutex
	steps []Step
	calls []Command
}

var _ Runner = (*Fake)(nil)

// NewFake makes a Fake with its script.
func NewFake(steps ...Step) *Fake {
	return &Fake{steps: steps}
}

// Run records the call and answers with the next step.
func (f *Fake) Run(ctx context.Context, cmd Command) (Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, cmd)
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("run %s: %w", strings.Join(cmd.Argv(), " "), err)
	}
	if len(f.steps) == 0 {
		return Result{}, fmt.Errorf("%w: %q", ErrUnscripted, cmd.Argv())
	}
	step := f.steps[0]
	if step.Argv != nil && !slices.Equal(step.Argv, cmd.Argv()) {
		return Result{}, fmt.Errorf("%w: %q, expected %q", ErrUnscripted, cmd.Argv(), step.Argv)
	}
	f.steps = f.steps[1:]
	if cmd.Stdout != nil {
		if _, err := cmd.Stdout.Write(step.Result.Stdout); err != nil {
			return Result{}, err
		}
	}
	if step.Err != nil {
		return step.Result, step.Err
	}
	return step.Result, exitError(cmd, step.Result)
}

// Calls are all calls so far, in order.
func (f *Fake) Calls() []Command {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Left is the number of steps that were not called yet.
func (f *Fake) Left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.steps)
}
