package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

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

// List tells the devices of a group, those of zeroing and copying too.
func (d Devices) List(ctx context.Context, group string) ([]decide.Mapped, error) {
	all, err := d.DM.List(ctx, group)
	if err != nil {
		return nil, err
	}
	var out []decide.Mapped
	for _, dev := range all {
		m := decide.Mapped{
			VolumeUUID: dev.UUID, Part: partOf(dev.Volume), Path: dev.Path, Live: dev.Live, Linear: dev.Linear, Cut: dev.Cut, Suspended: dev.Suspended, Pending: dev.Loaded,
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

func partOf(v linear.Volume) sharedlun.Part {
	switch {
	case v.New:
		return sharedlun.PartNew
	case v.Source:
		return sharedlun.PartSource
	}
	return sharedlun.PartShown
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

// parts are the devices that a volume may have: its own, that of what is new, or being copied to, and that of what it is copied from.
func parts(group, volume string) []linear.Volume {
	return []linear.Volume{{Group: group, UUID: volume}, {Group: group, UUID: volume, New: true}, {Group: group, UUID: volume, Source: true}}
}

// Cut makes a device return errors, and those of a zeroing or a copying, which may have outlived its agent. One that ends meanwhile takes its devices away by itself.
func (d Devices) Cut(ctx context.Context, group, volume string) error {
	var errs []error
	for _, v := range parts(group, volume) {
		errs = append(errs, d.DM.Cut(ctx, v))
	}
	return errors.Join(errs...)
}

// Remove removes a device that is not open, and what a zeroing or a copying left that was cut off.
func (d Devices) Remove(ctx context.Context, group, volume string) error {
	var errs []error
	for _, v := range slices.Backward(parts(group, volume)) {
		errs = append(errs, d.DM.Remove(ctx, v))
	}
	return inUse(errors.Join(errs...))
}

// Copy fills ranges of a LUN with others, through two devices of their own. Those that an earlier copying left are removed before: while that still writes, they are
// open.
func (d Devices) Copy(ctx context.Context, c decide.Duplicate, sure func(context.Context) error, done func(int64)) error {
	to, from := linear.Volume{Group: c.Group, UUID: c.Volume, New: true}, linear.Volume{Group: c.Group, UUID: c.Volume, Source: true}
	remove := func(ctx context.Context) error { return errors.Join(d.DM.Remove(ctx, to), d.DM.Remove(ctx, from)) }
	if err := remove(ctx); err != nil {
		return inUse(err)
	}
	err := d.DM.Load(ctx, to, segments(c.Lun, c.To), sure)
	if err == nil && len(c.From) > 0 {
		err = d.DM.Load(ctx, from, segments(c.Lun, c.From), sure)
	}
	if err == nil {
		err = d.DM.Copy(ctx, from, to, bytesOf(c.From), bytesOf(c.To), linear.Options{Discard: c.Discard, Pace: c.Pace}, done)
	}
	return inUse(errors.Join(err, remove(context.WithoutCancel(ctx))))
}

func bytesOf(ranges []sharedlun.Range) (sum int64) {
	for _, r := range ranges {
		sum += r.Size
	}
	return sum
}

// Zero makes ranges of a LUN read as zero, through a device of their own. One that an earlier zeroing left is removed before: while that still writes, it is
// open.
func (d Devices) Zero(
	ctx context.Context, group, volume, lun string, ranges []sharedlun.Range, discard bool, sure func(context.Context) error, done func(int64),
) error {
	v, size := linear.Volume{Group: group, UUID: volume, New: true}, bytesOf(ranges)
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
