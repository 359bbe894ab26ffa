// Package apply performs the steps of a plan, one after the other, and stops at the first step that fails. It decides nothing: the plan
// says which steps, in which order and on what ground. Each tool of the node has an adapter in a package of its own below this one,
// which performs the step types of that tool. A Guard stands around the whole plan.
package apply

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
)

// ErrUnknown means that an adapter does not perform steps of this type.
var ErrUnknown = errors.New("unknown step")

// Adapter performs the steps of one tool. Its errors carry the sentinels of package plan where a caller tells them apart:
// plan.ErrRefused when the tool found the node in another state than the plan was made on, and left it alone.
type Adapter interface {
	// Perform makes the change that the step describes. It returns ErrUnknown, and changes nothing, when the step is of another tool.
	// Before it destroys anything on a device it observes the device again, under an exclusive open, and compares it with the step's
	// token.
	Perform(ctx context.Context, step plan.Step) error
}

// Adapters perform each step by the first of them that knows its type.
type Adapters []Adapter

// Perform makes the change that the step describes.
func (as Adapters) Perform(ctx context.Context, step plan.Step) error {
	for _, a := range as {
		if err := a.Perform(ctx, step); !errors.Is(err, ErrUnknown) {
			return err
		}
	}
	return fmt.Errorf("%w %T", ErrUnknown, step)
}

// Guard stands around every plan. It is the one place for what has to hold while devices are changed, whatever the tool: who is kept
// away meanwhile, and who is told afterwards.
type Guard interface {
	// Hold keeps others away from the devices of the plan. release gives them back, also after a step that failed; its context does not
	// end with that of the caller.
	Hold(ctx context.Context, p plan.Plan) (release func(context.Context), err error)
}

// Verify judges a device as it is seen under an exclusive open. Its error means that nothing may be changed.
type Verify func(plan.Device) error

// StepError says which step of a plan failed.
type StepError struct {
	// Number of the step, from 1.
	Number int
	Step   plan.Step
	Err    error
}

// Error names the step and the cause.
func (e *StepError) Error() string { return fmt.Sprintf("step %d, %s: %v", e.Number, e.Step, e.Err) }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Applier performs plans on one node.
type Applier struct {
	Adapter Adapter
	// Guard holds the devices of a plan from before its first step until after its last one. Nothing is held when it is nil.
	Guard Guard
}

// Apply performs the steps in order. It stops at the first failure with a *StepError, or when the context ends.
func (a Applier) Apply(ctx context.Context, p plan.Plan) error {
	if a.Guard != nil && len(p.Steps) > 0 {
		release, err := a.Guard.Hold(ctx, p)
		if err != nil {
			return fmt.Errorf("before step 1: %w", err)
		}
		defer release(context.WithoutCancel(ctx))
	}
	for i, step := range p.Steps {
		err := ctx.Err()
		if err == nil {
			err = a.Adapter.Perform(ctx, step)
		}
		if err != nil {
			return &StepError{Number: i + 1, Step: step, Err: err}
		}
	}
	return nil
}
