// Package ceph performs the steps that make disks OSDs with Ceph's own programs. It decides nothing.
package ceph

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/apply"
	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	"quarry.storage/quarry/agent/internal/host/dm/crypt"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

// Disks are looked at, and written to, under an exclusive open that has ended when a call returns. verify is asked before anything is written.
type Disks interface {
	// Check shows a device to verify.
	Check(ctx context.Context, path string, verify apply.Verify) error
	// SealOSD writes the start of the disk of an encrypted OSD, FinishOSD its headers with the word that the making ended.
	SealOSD(ctx context.Context, path, uuid string, start []byte, verify apply.Verify) error
	FinishOSD(ctx context.Context, path, uuid string, headers []byte, verify apply.Verify) error
	// Headers reads the start of the disk of an encrypted OSD, Label the label at the start of a device.
	Headers(ctx context.Context, path, uuid string) ([]byte, error)
	Label(ctx context.Context, path string) (osd.Label, error)
}

// Maker has the programs of a container.
type Maker interface {
	// Mkfs makes a device an OSD, whatever is on it.
	Mkfs(ctx context.Context, m hostceph.Make) error
	// Find returns nil if the container with Ceph's programs runs on the node, FindEncryption if disks can be encrypted besides.
	Find(container string) error
	FindEncryption(ctx context.Context, container string) error
	// Seal returns the start of the disk of an encrypted OSD, Finish the headers of one whose making ended. They touch no disk.
	Seal(ctx context.Context, s hostceph.Seal) ([]byte, error)
	Finish(ctx context.Context, container, uuid string, start []byte) ([]byte, error)
	// Open opens an encrypted OSD.
	Open(ctx context.Context, o hostceph.Open) error
}

// Mappings are those of encrypted OSDs.
type Mappings interface {
	// Find returns the mapping of the OSD on the disk of that number, Close takes it away if there is one.
	Find(ctx context.Context, uuid string, disk uint64) (crypt.Mapping, error)
	Close(ctx context.Context, uuid string, disk uint64) error
}

// Adapter performs steps with Ceph.
type Adapter struct {
	Tool Maker
	// Devices are checked right before Ceph writes on them, and after it. Ceph opens a device exclusively itself, so that the check has to end before.
	Devices  Disks
	Mappings Mappings
}

var _ apply.Adapter = Adapter{}

// Perform looks for the programs, or makes a disk an OSD. That is done only if the disk says so afterwards, whatever the program says.
func (a Adapter) Perform(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case prep.FindTools:
		if s.Encryption {
			return translate(a.Tool.FindEncryption(ctx, s.Tools))
		}
		return translate(a.Tool.Find(s.Tools))
	case prep.SealOSD:
		return a.sealOSD(ctx, s)
	case prep.MakeOSD:
		if s.Want.Encrypted {
			return a.makeSealed(ctx, s)
		}
		return a.makeOSD(ctx, s)
	case prep.FinishOSD:
		return a.finishOSD(ctx, s)
	case prep.CloseOSD:
		return translate(a.Mappings.Close(ctx, s.UUID, unix.Mkdev(s.Major, s.Minor)))
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
	case errors.Is(err, hostceph.ErrNoEncryption):
		return fmt.Errorf("%w: %w", prep.ErrNoEncryption, err)
	case errors.Is(err, crypt.ErrInUse), errors.Is(err, crypt.ErrOther):
		return fmt.Errorf("%w: %w", plan.ErrRefused, err)
	case errors.Is(err, hostceph.ErrOtherDevice):
		return fmt.Errorf("%w: %w", plan.ErrMismatch, err)
	}
	return err
}
