// Package disk performs the steps that make a device clean, with the writing half of host/disk, and guards the devices of every plan
// against tests of our own and against udev. It decides nothing.
package disk

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/host/block"
	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
)

// Inspector sees a device, and who uses it, through the file that is open on it.
type Inspector interface {
	Inspect(ctx context.Context, f *os.File) (plan.Device, error)
}

// Udev is told of what happened to devices.
type Udev interface {
	// Mark notes udev's record of the device at a path.
	Mark(path string) (block.Mark, error)
	// Announce makes udev look at devices again, and waits until their records are other ones than those that were marked.
	Announce(ctx context.Context, marks ...block.Mark) error
}

// Adapter performs steps on single devices, and guards the devices of all plans.
type Adapter struct {
	Tool    *hostdisk.Tool
	Devices Inspector
	Udev    Udev
}

var (
	_ apply.Adapter = Adapter{}
	_ apply.Guard   = Adapter{}
)

// Perform makes a device clean.
func (a Adapter) Perform(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.WipeDevice:
		device := s.Token().Device()
		return refused(a.Tool.Wipe(ctx, device.Path, device.Digest, a.verifier(ctx, s.Token().Verify)))
	case plan.ReleasePV:
		return refused(a.Tool.Release(ctx, s.Token().Device().Path, s.PVUUID(), a.verifier(ctx, s.Token().Verify)))
	case prep.ClearOSD:
		return refused(a.Tool.ClearOSD(ctx, s.Token().Device().Path, s.UUID(), a.verifier(ctx, s.Token().Verify)))
	}
	return apply.ErrUnknown
}

// Check opens the device exclusively, asks verify and closes the device again. It is for steps whose tool opens the device exclusively
// itself.
func (a Adapter) Check(ctx context.Context, path string, verify apply.Verify) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EBUSY) {
		return refused(fmt.Errorf("%w: %w", hostdisk.ErrBusy, err))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return refused(a.verifier(ctx, verify)(f))
}

// verifier observes the device behind an open file and hands it to verify.
func (a Adapter) verifier(ctx context.Context, verify apply.Verify) func(*os.File) error {
	return func(f *os.File) error {
		d, err := a.Devices.Inspect(ctx, f)
		if err != nil {
			return fmt.Errorf("observe %s: %w", f.Name(), err)
		}
		return verify(d)
	}
}

// refusals are the failures of the tool that mean that the plan does not fit any more.
var refusals = []error{hostdisk.ErrBusy, hostdisk.ErrMark, hostdisk.ErrNotOurs}

// refused marks them.
func refused(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return fmt.Errorf("%w: %w", plan.ErrRefused, err)
		}
	}
	return err
}
