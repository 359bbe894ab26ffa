package disk

import (
	"context"
	"fmt"
	"os"
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
	label := readLabel(im)
	switch {
	case label == nil && d.checkClean() == nil:
		return nil
	case label == nil || pvUUID == "" || label.uuid != pvUUID:
		return fmt.Errorf("%w: wanted %s", ErrNotOurs, pvUUID)
	case label.inGroup:
		return fmt.Errorf("%w: the physical volume belongs to a group", ErrBusy)
	}
	sector := int64(d.sector)
	start := label.off / sector * sector
	after := start + sector
	// Data of former logical volumes can look like a signature of the whole device.
	spans := append(knownFar(d.size), farRanges(im, facts.Signatures)...)
	spans = append(spans, span{im.tailOff, d.size - im.tailOff}, span{after, int64(len(im.head)) - after}, span{0, start})
	for _, s := range spans {
		if err := d.zero(ctx, s); err != nil {
			return err
		}
	}
	if err := d.sync(); err != nil {
		return err
	}
	if err := d.zero(ctx, span{start, sector}); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	return d.checkClean()
}
