package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// wipeLimit bounds a step that wipes devices, however many they are: whose they are was asked once, before the first of them. The next pass goes on with the others.
const wipeLimit = 2 * time.Minute

// Perform performs the steps of one host in order and stops at the first that fails, or that may not be taken any more. It returns how
// many were performed.
func (b *Backend) Perform(ctx context.Context, host string, steps backend.Steps) (done int, err error) {
	p := performer{Changer: b.Changer, records: b.Records, agents: b.Agents, host: host, wiped: map[string]decide.Device{}}
	for s, err := range steps {
		if err != nil {
			return done, err
		}
		if err := p.perform(ctx, s); err != nil {
			return done, failed(s.Action(), err)
		}
		done++
	}
	return done, nil
}

// performer performs the steps of one host.
type performer struct {
	Changer
	records Records
	agents  Agents
	host    string
	// wiped are the devices that were wiped, as they are then: a later step takes them like that.
	wiped map[string]decide.Device
}

func (p performer) perform(ctx context.Context, step backend.Step) error {
	s, ok := step.(lvm.Step)
	if !ok || s.Host() != p.host {
		return fmt.Errorf("step %T %s of host %q was given to host %s", step, step.Action(), step.Host(), p.host)
	}
	devices := make([]decide.Device, 0, len(s.Devices))
	for _, d := range s.Devices {
		if clean, ok := p.wiped[d.Path]; ok {
			d = clean
		}
		devices = append(devices, d)
	}
	switch s.Does {
	case v1alpha1.ActionWipeDevice:
		ctx, cancel := context.WithTimeout(ctx, wipeLimit)
		defer cancel()
		return p.wipe(ctx, devices)
	case v1alpha1.ActionEnsureVolumeGroup:
		return p.EnsureVolumeGroup(ctx, p.host, s.Ref(), devices)
	case v1alpha1.ActionEnsureThinPool:
		return p.ensurePool(ctx, s)
	case v1alpha1.ActionReduceVolumeGroup:
		return p.ReduceVolumeGroup(ctx, p.host, s.Ref(), devices)
	case v1alpha1.ActionForgetMissingDevice:
		return p.ForgetMissingDevice(ctx, p.host, s.Ref(), s.Missing, s.Lost)
	case v1alpha1.ActionMoveExtents:
		return p.move(ctx, s, devices)
	case v1alpha1.ActionRemoveVolumeGroup:
		return p.RemoveVolumeGroup(ctx, p.host, s.Ref(), devices)
	case v1alpha1.ActionRepairThinPool:
		return p.RepairThinPool(ctx, p.host, s.Ref(), s.Damaged.Name, s.Damaged.Digest)
	}
	return p.performOnOwnership(ctx, s)
}

// performOnOwnership performs steps on whose a group is.
func (p performer) performOnOwnership(ctx context.Context, s lvm.Step) error {
	switch s.Does {
	case v1alpha1.ActionStampVolumeGroup:
		return p.StampVolumeGroup(ctx, p.host, s.Group, s.Owner, s.UUID)
	case v1alpha1.ActionImportVolumeGroup:
		if s.FromOwner != "" {
			return p.takeOver(ctx, s)
		}
		return p.ImportVolumeGroup(ctx, p.host, s.Group, s.Owner, s.UUID, s.From)
	case v1alpha1.ActionAdoptVolumeGroup:
		return p.adopt(ctx, s)
	}
	return fmt.Errorf("unknown action %q", s.Does)
}

func (p performer) ensurePool(ctx context.Context, s lvm.Step) error {
	if s.ThinPool == nil {
		return fmt.Errorf("step %s of host %s names no thin pool", s.Does, p.host)
	}
	want := *s.ThinPool
	want.UUID = s.UUID
	_, err := p.EnsureThinPool(ctx, p.host, want)
	return err
}

func (p performer) move(ctx context.Context, s lvm.Step, devices []decide.Device) error {
	if len(devices) != 1 {
		return fmt.Errorf("step %s of host %s names %d devices", s.Does, p.host, len(devices))
	}
	return p.MoveExtents(ctx, p.host, s.Ref(), devices[0], s.Avoid)
}

func (p performer) wipe(ctx context.Context, devices []decide.Device) error {
	for _, d := range devices {
		clean, err := p.WipeDevice(ctx, p.host, d)
		if err != nil {
			return err
		}
		p.wiped[d.Path] = clean
	}
	return nil
}

// failed says why a step failed.
func failed(action string, err error) error {
	f := &decide.Fault{}
	errors.As(err, &f)
	return &backend.StepError{Reason: cmp.Or(f.Reason, lvm.FailureReason(action, f.Kind)), Passing: lvm.Passing(f.Kind), Err: err}
}
