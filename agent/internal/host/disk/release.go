package disk

import (
	"context"
	"fmt"
	"math"
	"os"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

// Release makes a physical volume that belongs to no group a clean device. It must carry exactly the given UUID; the label
// goes last, so that a release that was killed finds it again. verify is called with the exclusively open file before
// anything is written. A device that is clean already is left alone.
func (t *Tool) Release(ctx context.Context, path, pvUUID string, verify func(*os.File) error) error {
	d, err := t.open(ctx, path)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	defer d.close()
	if err := d.release(ctx, pvUUID, verify); err != nil {
		return fmt.Errorf("release %s: %w", path, err)
	}
	return nil
}

func (d *device) release(ctx context.Context, pvUUID string, verify func(*os.File) error) error {
	if err := verify(d.file); err != nil {
		return err
	}
	facts, im, err := probeOwn(d.file)
	if err != nil {
		return err
	}
	label := facts.label
	switch {
	case label == nil && d.checkClean() == nil:
		return nil
	case label == nil || pvUUID == "" || label.UUID != pvUUID:
		return fmt.Errorf("%w: wanted %s", ErrNotOurs, pvUUID)
	case label.InGroup:
		return fmt.Errorf("%w: the physical volume belongs to a group", ErrBusy)
	}
	sector := int64(d.sector)
	start := label.Offset / sector * sector
	after := start + sector
	// Data of former logical volumes can look like a signature of the whole device.
	ranges := append(format.KnownFar(d.size), im.FoundFar(facts.Signatures, math.MaxInt)...)
	ranges = append(ranges, format.Range{Offset: im.TailOff, Bytes: d.size - im.TailOff},
		format.Range{Offset: after, Bytes: int64(len(im.Head)) - after}, format.Range{Bytes: start})
	for _, r := range ranges {
		if err := d.zero(ctx, r); err != nil {
			return err
		}
	}
	if err := d.sync(); err != nil {
		return err
	}
	if err := d.zero(ctx, format.Range{Offset: start, Bytes: sector}); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	return d.checkClean()
}
