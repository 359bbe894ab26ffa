// Package apply performs the steps of a plan, one after the other, and stops at the first that fails. It decides nothing: which
// steps, in which order and on what ground is the plan's business. Before anything on a device is destroyed, the device is
// observed again under an exclusive open and compared with the step's token.
package apply

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// ErrRefused means that a tool found the device or the group in another state than the plan was made on, and left it alone.
var ErrRefused = errors.New("the node changed meanwhile")

// What tools find that callers tell apart, besides ErrRefused.
var (
	// ErrExists means that the name of a new volume is taken.
	ErrExists = errors.New("the name is taken")
	// ErrNoRoom means that LVM found too little room.
	ErrNoRoom = errors.New("not enough room in the group")
	// ErrInUse means that a volume is open.
	ErrInUse = errors.New("volume is in use")
)

// Volumes changes logical volumes and thin pools. Each method looks, in the same process that makes the change, whether the group
// carries the tag of the step, and, where the step names one, the volume too.
type Volumes interface {
	CreateLV(ctx context.Context, s volume.CreateLV) error
	ExtendLV(ctx context.Context, s volume.ExtendLV) error
	ActivateLV(ctx context.Context, s volume.ActivateLV) error
	SettleLV(ctx context.Context, s volume.SettleLV) error
	DeactivateLV(ctx context.Context, s plan.DeactivatePool) error
	RemoveLV(ctx context.Context, s volume.RemoveLV) error
	CreatePool(ctx context.Context, s volume.CreatePool) error
	RemovePool(ctx context.Context, s plan.RemovePool) error
}

// Groups changes LVM physical volumes and volume groups.
type Groups interface {
	CreatePV(ctx context.Context, device, uuid string) error
	CreateVG(ctx context.Context, name string, tags, devices []string) error
	ExtendVG(ctx context.Context, name string, groupDevices, newDevices []string) error
	ReduceVG(ctx context.Context, name string, groupDevices, remove []string) error
	ReduceMissing(ctx context.Context, name string, groupDevices []string) error
	RemoveVG(ctx context.Context, name string, groupDevices []string) error
}

// Verify judges a device as it is seen under an exclusive open. Its error means that nothing may be changed.
type Verify func(plan.Device) error

// Disks makes devices clean. Each method opens the device exclusively, observes it, asks verify and only then goes on.
type Disks interface {
	// Check opens, asks verify and closes again.
	Check(ctx context.Context, path string, verify Verify) error
	// Wipe removes everything that identifies a content, after it left a mark with the digest on the device.
	Wipe(ctx context.Context, path, digest string, verify Verify) error
	// Release removes the label of the physical volume with that UUID.
	Release(ctx context.Context, path, pvUUID string, verify Verify) error
}

// StepError says which step of a plan failed.
type StepError struct {
	// Number of the step, from 1.
	Number int
	Step   plan.Step
	Err    error
}

// Error names the step and the cause.
func (e *StepError) Error() string { return fmt.Sprintf("step %d, %s: %v", e.Number, e.Step, e.Err) }

// Unwrap gives the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Applier performs plans on the tools of one node.
type Applier struct {
	Groups  Groups
	Disks   Disks
	Volumes Volumes
}

// Apply performs the steps in order. It stops at the first failure with a *StepError, or when the context ends.
func (a Applier) Apply(ctx context.Context, p plan.Plan) error {
	for i, step := range p.Steps {
		err := ctx.Err()
		if err == nil {
			err = a.perform(ctx, step)
		}
		if err != nil {
			return &StepError{Number: i + 1, Step: step, Err: err}
		}
	}
	return nil
}

func (a Applier) perform(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.CreatePV:
		device := s.Token().Device().Path
		if err := a.Disks.Check(ctx, device, s.Token().Verify); err != nil {
			return err
		}
		return a.Groups.CreatePV(ctx, device, s.UUID)
	case plan.CreateVG:
		return a.Groups.CreateVG(ctx, s.Name, s.Tags, s.Devices)
	case plan.ExtendVG:
		return a.Groups.ExtendVG(ctx, s.Name, s.GroupDevices, s.Devices)
	case plan.ReduceVG:
		return a.Groups.ReduceVG(ctx, s.Name, s.GroupDevices, s.Devices)
	case plan.ReduceMissing:
		return a.Groups.ReduceMissing(ctx, s.Name, s.GroupDevices)
	case plan.RemoveVG:
		return a.Groups.RemoveVG(ctx, s.Name, s.GroupDevices)
	case plan.ReleasePV:
		return a.Disks.Release(ctx, s.Token().Device().Path, s.PVUUID(), s.Token().Verify)
	case plan.WipeDevice:
		device := s.Token().Device()
		return a.Disks.Wipe(ctx, device.Path, device.Digest, s.Token().Verify)
	default:
		return a.performOnVolume(ctx, step)
	}
}

func (a Applier) performOnVolume(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case volume.CreateLV:
		return a.Volumes.CreateLV(ctx, s)
	case volume.ExtendLV:
		return a.Volumes.ExtendLV(ctx, s)
	case volume.ActivateLV:
		return a.Volumes.ActivateLV(ctx, s)
	case volume.SettleLV:
		return a.Volumes.SettleLV(ctx, s)
	case plan.DeactivatePool:
		return a.Volumes.DeactivateLV(ctx, s)
	case volume.RemoveLV:
		return a.Volumes.RemoveLV(ctx, s)
	case volume.CreatePool:
		return a.Volumes.CreatePool(ctx, s)
	case plan.RemovePool:
		return a.Volumes.RemovePool(ctx, s)
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}
