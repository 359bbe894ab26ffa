package ceph

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

// sealOSD has headers made in a file, and writes them to the disk.
func (a Adapter) sealOSD(ctx context.Context, s prep.SealOSD) error {
	start, err := a.Tool.Seal(ctx, hostceph.Seal{Container: s.Tools, UUID: s.Want.UUID, FSID: s.Want.FSID, SizeBytes: s.SizeBytes(), Key: s.Key})
	if err != nil {
		return translate(err)
	}
	return a.Devices.SealOSD(ctx, s.Token().Device().Path, s.Want.UUID, start, s.Token().Verify)
}

// makeSealed opens the disk, makes the OSD in it, and closes it. A call that was killed may have left it open: what is there is closed first.
func (a Adapter) makeSealed(ctx context.Context, s prep.MakeOSD) (err error) {
	device, number := s.Token().Device().Path, uint64(0)
	verify := func(d plan.Device) error {
		number = unix.Mkdev(d.Major, d.Minor)
		return s.Token().Verify(d)
	}
	if err := a.Devices.Check(ctx, device, verify); err != nil {
		return err
	}
	if err := a.Mappings.Close(ctx, s.Want.UUID, number); err != nil {
		return translate(err)
	}
	// What is open when this ends keeps others from the disk.
	defer func() {
		err = errors.Join(err, translate(a.Mappings.Close(context.WithoutCancel(ctx), s.Want.UUID, number)))
		if err == nil {
			err = a.Devices.Check(ctx, device, s.Made)
		}
	}()
	if err := a.Tool.Open(ctx, hostceph.Open{Container: s.Tools, UUID: s.Want.UUID, Device: device, Number: number, Key: s.Key}); err != nil {
		return translate(err)
	}
	m, err := a.Mappings.Find(ctx, s.Want.UUID, number)
	if err != nil {
		return translate(err)
	}
	err = a.Tool.Mkfs(ctx, hostceph.Make{Container: s.Tools, UUID: s.Want.UUID, FSID: s.Want.FSID, ID: s.Want.ID, Device: m.Path, Number: m.Number})
	if err != nil {
		return translate(err)
	}
	return a.inside(ctx, s.Want, m.Path)
}

// inside returns an error unless an open disk carries the OSD, ready.
func (a Adapter) inside(ctx context.Context, want osd.Wanted, path string) error {
	label, err := a.Devices.Label(ctx, path)
	if err != nil {
		return fmt.Errorf("%w: after it was made: %w", plan.ErrMismatch, err)
	}
	clear := want
	clear.Encrypted = false
	v := osd.Judge(clear, osd.Contents{SizeBytes: label.SizeBytes, Labels: []osd.Found{{Label: label}}})
	if v.Kind != osd.Ready {
		return fmt.Errorf("%w: after it was made: %s", plan.ErrMismatch, v.Message)
	}
	return nil
}

// finishOSD has the word that the making ended added to the headers in a file, and writes them to the disk.
func (a Adapter) finishOSD(ctx context.Context, s prep.FinishOSD) error {
	device := s.Token().Device().Path
	start, err := a.Devices.Headers(ctx, device, s.Want.UUID)
	if err != nil {
		return err
	}
	headers, err := a.Tool.Finish(ctx, s.Tools, s.Want.UUID, start)
	if err != nil {
		return translate(err)
	}
	if err := a.Devices.FinishOSD(ctx, device, s.Want.UUID, headers, s.Token().Verify); err != nil {
		return err
	}
	if err := a.Devices.Check(ctx, device, s.Made); err != nil {
		return fmt.Errorf("after it was finished: %w", err)
	}
	return nil
}
