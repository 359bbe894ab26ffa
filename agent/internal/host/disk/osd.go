package disk

import (
	"context"
	"fmt"
	"math"
	"os"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/pkg/osd"
)

// ClearOSD makes a disk that carries an OSD of Ceph a clean device. Every label or header on it must be one of exactly that OSD. One of these goes last,
// so that a call that was killed finds it again: at each instant the disk is either that OSD's by its own writing, or clean. verify is called with
// the exclusively open file before anything is written. A device that is clean already is left alone. What lies between the places of labels and
// signatures is not overwritten.
func (t *Tool) ClearOSD(ctx context.Context, path, uuid string, verify func(*os.File) error) error {
	d, err := t.open(ctx, path)
	if err != nil {
		return fmt.Errorf("clear OSD: %w", err)
	}
	defer d.close()
	if err := d.clearOSD(ctx, uuid, verify); err != nil {
		return fmt.Errorf("clear OSD on %s: %w", path, err)
	}
	return nil
}

func (d *device) clearOSD(ctx context.Context, uuid string, verify func(*os.File) error) error {
	if err := verify(d.file); err != nil {
		return err
	}
	facts, im, err := probeOwn(d.file)
	if err != nil {
		return err
	}
	if len(facts.Labels)+len(facts.Headers) == 0 && d.checkClean() == nil {
		return nil
	}
	last, err := lastMark(facts, uuid)
	if err != nil {
		return err
	}
	// Before the first write, and while the mark stands: afterwards nobody would know that partitions which the kernel took out of it are none.
	if err := d.dropPartitions(uuid); err != nil {
		return err
	}
	keep := format.Range{Offset: last, Bytes: max(osd.BlockBytes, int64(d.sector))}
	var ranges []format.Range
	if len(facts.Headers) > 0 {
		// Without the key slots, ours and those that people added, nobody opens the disk any more, whatever becomes of the rest.
		ranges = append(ranges, format.Range{Offset: osd.HeadersBytes, Bytes: min(osd.SealedBytes, d.size) - osd.HeadersBytes}, format.Range{Offset: osd.HeaderBytes, Bytes: osd.HeaderBytes})
	}
	// Data of the OSD can look like a signature of the whole device.
	ranges = append(append(ranges, format.KnownFar(d.size)...), im.FoundFar(facts.Signatures, math.MaxInt)...)
	ranges = append(ranges, format.Range{Offset: im.TailOff, Bytes: d.size - im.TailOff}, format.Range{Bytes: int64(len(im.Head))})
	for _, r := range ranges {
		for _, part := range r.Without(keep) {
			if err := d.zero(ctx, part); err != nil {
				return err
			}
		}
	}
	if err := d.sync(); err != nil {
		return err
	}
	if err := d.zero(ctx, keep); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	return d.checkClean()
}

// lastMark is the offset of the label, or of the header, that is cleared last.
func lastMark(f Facts, uuid string) (int64, error) {
	for _, l := range f.Labels {
		if l.Err != nil || l.Label.UUID != uuid {
			return 0, fmt.Errorf("%w: wanted OSD %s, and the label at %d is of %q", ErrNotOurs, uuid, l.Offset, l.Label.UUID)
		}
	}
	for _, h := range f.Headers {
		if h.UUID != uuid {
			return 0, fmt.Errorf("%w: wanted OSD %s, and the header at %d is of %q", ErrNotOurs, uuid, h.Offset, h.UUID)
		}
	}
	switch {
	case uuid == "" || len(f.Labels)+len(f.Headers) == 0:
		return 0, fmt.Errorf("%w: wanted OSD %s", ErrNotOurs, uuid)
	case len(f.Headers) == 0:
		return f.Labels[0].Offset, nil
	case len(f.Labels) > 0 || f.Headers[0].Offset > 0:
		return 0, fmt.Errorf("%w: OSD %s is encrypted, and has a label in the clear or lacks its first header", ErrNotOurs, uuid)
	}
	return f.Headers[0].Offset, nil
}
