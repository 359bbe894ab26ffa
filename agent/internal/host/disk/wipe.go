package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

// Wipe makes a device clean: no partition table, no signature, both ends zero. The mark, with the digest that the wipe was
// approved for, is written first and removed last, so that a wipe that was killed is recognised; repeating it then ends
// the same. verify is called with the exclusively open file before anything is written, on every call. A device that is clean
// already is left alone.
func (t *Tool) Wipe(ctx context.Context, path, digest string, verify func(*os.File) error) error {
	d, err := t.open(ctx, path)
	if err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	defer d.close()
	if err := d.wipe(ctx, digest, verify); err != nil {
		return fmt.Errorf("wipe %s: %w", path, err)
	}
	return nil
}

func (d *device) wipe(ctx context.Context, digest string, verify func(*os.File) error) error {
	if err := verify(d.file); err != nil {
		return err
	}
	facts, im, err := probeOwn(d.file)
	if err != nil {
		return err
	}
	seen, mark := d.seen(facts), facts.Wipe
	began := mark != nil && len(mark.Later(seen.Signatures)) == 0
	switch {
	case began && mark.Digest != digest:
		return fmt.Errorf("%w: its digest is %q", ErrMark, mark.Digest)
	case !began:
		if d.checkClean() == nil {
			return d.rereadPartitions()
		}
		if mark, err = renewed(mark, digest, im.FoundFar(facts.Signatures, markRanges)); err != nil {
			return err
		}
		mark.cover(seen.Signatures)
		if err := d.writeMark(mark); err != nil {
			return err
		}
	}
	if err := d.clear(ctx, im, mark); err != nil {
		return err
	}
	if err := d.checkMarked(); err != nil {
		return err
	}
	return d.unmark(ctx)
}

// seen is what all readers find on the device. Where one of them cannot make sense of it, what identifies the content was compared already.
func (d *device) seen(facts Facts) Facts {
	if seen, err := ProbeFile(d.file); err == nil {
		return seen
	}
	return facts
}

// unmark removes the mark, as the last write of a wipe.
func (d *device) unmark(ctx context.Context) error {
	if err := d.zero(ctx, format.Range{Bytes: int64(d.sector)}); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	if err := d.rereadPartitions(); err != nil {
		return err
	}
	return d.checkClean()
}

// renewed is the mark of a wipe that begins. What an earlier wipe, which was interrupted, had still to clear is cleared with it.
func renewed(earlier *Mark, digest string, ranges []format.Range) (*Mark, error) {
	if earlier != nil {
		for _, r := range earlier.ranges {
			if !slices.Contains(ranges, r) {
				ranges = append(ranges, r)
			}
		}
	}
	if len(ranges) > markRanges {
		return nil, fmt.Errorf("%w: signatures at more than %d places: clear it by hand", ErrNotClean, markRanges)
	}
	return &Mark{Digest: digest, ranges: ranges}, nil
}

// writeMark replaces the first sector, in one write, by the mark.
func (d *device) writeMark(m *Mark) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	first := make([]byte, max(d.sector, markBytes))
	if int64(len(first)) > d.size {
		return errors.New("device is too small")
	}
	copy(first, b)
	if err := d.write(first, 0); err != nil {
		return err
	}
	return d.sync()
}

// clear zeroes everything that a reader could take for a signature, except the mark.
func (d *device) clear(ctx context.Context, im *format.Image, mark *Mark) error {
	ranges := []format.Range{
		{Offset: im.TailOff, Bytes: d.size - im.TailOff}, {Offset: int64(d.sector), Bytes: int64(len(im.Head) - d.sector)},
	}
	ranges = append(ranges, format.KnownFar(d.size)...)
	ranges = append(ranges, mark.ranges...)
	for _, r := range ranges {
		if err := d.zero(ctx, r); err != nil {
			return err
		}
	}
	return d.sync()
}

// checkMarked wants the mark to be all that is left.
func (d *device) checkMarked() error {
	facts, err := ProbeFile(d.file)
	if err != nil {
		return err
	}
	if facts.Wipe == nil {
		return fmt.Errorf("%w: the mark is gone", ErrNotClean)
	}
	return leftOver(facts)
}

// checkClean wants nothing at all to be left.
func (d *device) checkClean() error {
	facts, err := ProbeFile(d.file)
	if err != nil {
		return err
	}
	if err := leftOver(facts); err != nil {
		return err
	}
	if !facts.Clean() {
		return fmt.Errorf("%w: its ends hold data", ErrNotClean)
	}
	return nil
}

// leftOver names the first signature besides the mark.
func leftOver(facts Facts) error {
	for _, s := range facts.Signatures {
		if s.Type != markType {
			return fmt.Errorf("%w: %s at %d", ErrNotClean, s.Type, s.Offset)
		}
	}
	return nil
}
