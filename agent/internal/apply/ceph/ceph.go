// Package ceph performs the steps that make disks OSDs with Ceph's own programs. It decides nothing.
package ceph

import (
	"context"
	"errors"
	"fmt"

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
}

// Adapter performs steps with Ceph.
type Adapter struct {
	Tool Maker
	// Devices are checked right before Ceph writes on them, and after it. Ceph opens a device exclusively itself, so that the check has to end before.
	Devices Checker
}

var _ apply.Adapter = Adapter{}

// Perform makes a disk an OSD. It is done only if the disk says so afterwards, whatever the program says.
func (a Adapter) Perform(ctx context.Context, step plan.Step) error {
	s, ok := step.(prep.MakeOSD)
	if !ok {
		return apply.ErrUnknown
	}
	device := s.Token().Device().Path
	if err := a.Devices.Check(ctx, device, s.Token().Verify); err != nil {
		return err
	}
	err := a.Tool.Mkfs(ctx, hostceph.Make{Container: s.Tools, UUID: s.Want.UUID, FSID: s.Want.FSID, ID: s.Want.ID, Device: device})
	if errors.Is(err, hostceph.ErrNoContainer) {
		return fmt.Errorf("%w: %w", prep.ErrNoTools, err)
	}
	if err != nil {
		return err
	}
	if err := a.Devices.Check(ctx, device, s.Made); err != nil {
		return fmt.Errorf("after it was made: %w", err)
	}
	return nil
}
