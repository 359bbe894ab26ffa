package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/dm/linear"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Devices are the devices of volumes on this node.
type Devices struct{ DM *linear.Devices }

const sector = 512

// Number is the number of a LUN's device, and its size.
func (d Devices) Number(_ context.Context, device string) (string, int64, error) {
	f, err := os.Open(device)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, fmt.Errorf("%w: %w", sharedlun.ErrNotFound, err)
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	major, minor, err := disk.Number(f)
	if err != nil {
		return "", 0, err
	}
	bytes, err := f.Seek(0, io.SeekEnd)
	return fmt.Sprintf("%d:%d", major, minor), bytes, err
}

// List tells the devices of a group.
func (d Devices) List(ctx context.Context, group string) ([]decide.Mapped, error) {
	all, err := d.DM.List(ctx, group)
	if err != nil {
		return nil, err
	}
	var out []decide.Mapped
	for _, dev := range all {
		if dev.New {
			continue
		}
		m := decide.Mapped{
			VolumeUUID: dev.UUID, Path: dev.Path, Live: dev.Live, Linear: dev.Linear, Cut: dev.Cut, Suspended: dev.Suspended, Pending: dev.Loaded,
			InUse: dev.InUse(),
		}
		for i, s := range dev.Segments {
			if i == 0 {
				m.Lun = s.On
			}
			m.Linear = m.Linear && s.On == m.Lun
			m.Ranges = append(m.Ranges, sharedlun.Range{Start: s.Start * sector, Size: s.Sectors * sector})
		}
		out = append(out, m)
	}
	return out, nil
}

// Load makes a device have exactly these ranges. The device of a zeroing that goes on beside it, or was cut off, stays: the next zeroing removes it, and Remove.
func (d Devices) Load(ctx context.Context, group, volume, lun string, ranges []sharedlun.Range, sure func(context.Context) error) error {
	return inUse(d.DM.Load(ctx, linear.Volume{Group: group, UUID: volume}, segments(lun, ranges), sure))
}

func segments(lun string, ranges []sharedlun.Range) []linear.Segment {
	var out []linear.Segment
	for _, r := range ranges {
		out = append(out, linear.Segment{On: lun, Start: r.Start / sector, Sectors: r.Size / sector})
	}
	return out
}

// Cut makes a device return errors, and that of a zeroing, which may have outlived its agent. A zeroing that ends meanwhile takes its device away by itself.
func (d Devices) Cut(ctx context.Context, group, volume string) error {
	return errors.Join(
		d.DM.Cut(ctx, linear.Volume{Group: group, UUID: volume}), d.DM.Cut(ctx, linear.Volume{Group: group, UUID: volume, New: true}),
	)
}

// Remove removes a device that is not open, and what a zeroing left that was cut off.
func (d Devices) Remove(ctx context.Context, group, volume string) error {
	return inUse(errors.Join(
		d.DM.Remove(ctx, linear.Volume{Group: group, UUID: volume, New: true}), d.DM.Remove(ctx, linear.Volume{Group: group, UUID: volume}),
	))
}

// Zero makes ranges of a LUN read as zero, through a device of their own. One that an earlier zeroing left is removed before: while that still writes, it is
// open.
func (d Devices) Zero(
	ctx context.Context, group, volume, lun string, ranges []sharedlun.Range, discard bool, sure func(context.Context) error, done func(int64),
) error {
	v, size := linear.Volume{Group: group, UUID: volume, New: true}, int64(0)
	for _, r := range ranges {
		size += r.Size
	}
	if err := d.DM.Remove(ctx, v); err != nil {
		return inUse(err)
	}
	if err := d.DM.Load(ctx, v, segments(lun, ranges), sure); err != nil {
		return inUse(err)
	}
	err := d.DM.Zero(ctx, v, 0, size, discard, done)
	return inUse(errors.Join(err, d.DM.Remove(context.WithoutCancel(ctx), v)))
}

// inUse gives an error of device-mapper the meaning that it has for a caller.
func inUse(err error) error {
	if errors.Is(err, linear.ErrInUse) {
		return fmt.Errorf("%w: %w", sharedlun.ErrInUse, err)
	}
	return err
}
