// Package ceph performs the steps that make disks OSDs with Ceph's own programs. It decides nothing.
package ceph

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/apply"
	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
)

// Checker shows a device to verify, under an exclusive open that has ended when it returns.
type Checker interface {
	Check(ctx context.Context, path string, verify apply.Verify) error
}

// Maker makes a device an OSD, whatever is on it.
type Maker interface {
	Mkfs(ctx context.Context, m hostceph.Make) error
	// Find returns nil if the container with Ceph's programs runs on the node.
	Find(container string) error
}

// Adapter performs steps with Ceph.
type Adapter struct {
	Tool Maker
	// Devices are checked right before Ceph writes on them, and after it. Ceph opens a device exclusively itself, so that the check has to end before.
	Devices Checker
}

var _ apply.Adapter = Adapter{}

// Perform looks for the programs, or makes a disk an OSD. That is done only if the disk says so afterwards, whatever the program says.
func (a Adapter) Perform(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case prep.FindTools:
		return translate(a.Tool.Find(s.Tools))
	case prep.MakeOSD:
		return a.makeOSD(ctx, s)
	}
	return apply.ErrUnknown
}

func (a Adapter) makeOSD(ctx context.Context, s prep.MakeOSD) error {
	device, number := s.Token().Device().Path, uint64(0)
	verify := func(d plan.Device) error {
		number = unix.Mkdev(d.Major, d.Minor)
		return s.Token().Verify(d)
	}
	if err := a.Devices.Check(ctx, device, verify); err != nil {
		return err
	}
	err := a.Tool.Mkfs(ctx, hostceph.Make{
		Container: s.Tools, UUID: s.Want.UUID, FSID: s.Want.FSID, ID: s.Want.ID, Device: device, Number: number,
	})
	if err != nil {
		return translate(err)
	}
	if err := a.Devices.Check(ctx, device, s.Made); err != nil {
		return fmt.Errorf("after it was made: %w", err)
	}
	return nil
}

// translate gives what the tool refuses the sentinels that callers know.
func translate(err error) error {
	switch {
	case errors.Is(err, hostceph.ErrNoContainer):
		return fmt.Errorf("%w: %w", prep.ErrNoTools, err)
	case errors.Is(err, hostceph.ErrOtherDevice):
		return fmt.Errorf("%w: %w", plan.ErrMismatch, err)
	}
	return err
}
