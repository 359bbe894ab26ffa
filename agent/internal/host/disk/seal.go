package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/pkg/osd"
)

// SealOSD writes the headers and the key slot of an encrypted OSD, which cryptsetup made in a file, to a clean device. From the first write on the device
// carries a header of that OSD. A killed call is not continued: the device is cleared, and sealed anew. verify is called with the exclusively open file
// before anything is written.
func (t *Tool) SealOSD(ctx context.Context, path, uuid string, image []byte, verify func(*os.File) error) error {
	if err := sealable(image, uuid, false); err != nil || len(image) != osd.SlotsBytes {
		return fmt.Errorf("seal OSD on %s: %d bytes: %w", path, len(image), errors.Join(err, errImage))
	}
	d, err := t.open(ctx, path)
	if err != nil {
		return fmt.Errorf("seal OSD: %w", err)
	}
	defer d.close()
	if err := d.seal(ctx, image, verify); err != nil {
		return fmt.Errorf("seal OSD on %s: %w", path, err)
	}
	return nil
}

// errImage means that cryptsetup made something else than what it was told to.
var errImage = errors.New("these are not the headers of the OSD")

func (d *device) seal(ctx context.Context, image []byte, verify func(*os.File) error) error {
	if err := verify(d.file); err != nil {
		return err
	}
	if err := d.checkClean(); err != nil {
		return err
	}
	if d.size < 2*osd.SealedBytes || d.size%osd.SealedSector != 0 {
		return fmt.Errorf("%w: an encrypted OSD has sectors of %d bytes, and the device has %d bytes", ErrNotClean, osd.SealedSector, d.size)
	}
	// Whose it is comes first. The headers are whole only once the slot is there. A power failure keeps to this order too: a second header beside a first one that is not
	// whole is somebody else's doing.
	for _, part := range []format.Range{
		{Offset: 0, Bytes: osd.BlockBytes},
		{Offset: osd.HeadersBytes, Bytes: osd.SlotsBytes - osd.HeadersBytes},
		{Offset: osd.BlockBytes, Bytes: osd.HeaderBytes - osd.BlockBytes},
		{Offset: osd.HeaderBytes, Bytes: osd.HeaderBytes},
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.write(image[part.Offset:part.Offset+part.Bytes], part.Offset); err != nil {
			return err
		}
		if err := d.sync(); err != nil {
			return err
		}
	}
	return nil
}

// FinishOSD writes the headers of an encrypted OSD to which cryptsetup has added, in a file, that its making ended: the second one first. A killed call leaves
// a device that is that OSD's, and finished or not. verify is called with the exclusively open file before anything is written.
func (t *Tool) FinishOSD(ctx context.Context, path, uuid string, headers []byte, verify func(*os.File) error) error {
	if err := sealable(headers, uuid, true); err != nil || len(headers) != osd.HeadersBytes {
		return fmt.Errorf("finish OSD on %s: %d bytes: %w", path, len(headers), errors.Join(err, errImage))
	}
	d, err := t.open(ctx, path)
	if err != nil {
		return fmt.Errorf("finish OSD: %w", err)
	}
	defer d.close()
	if err := d.finish(headers, verify); err != nil {
		return fmt.Errorf("finish OSD on %s: %w", path, err)
	}
	return nil
}

func (d *device) finish(headers []byte, verify func(*os.File) error) error {
	if err := verify(d.file); err != nil {
		return err
	}
	before := make([]byte, osd.HeadersBytes)
	if _, err := d.file.ReadAt(before, 0); err != nil {
		return fmt.Errorf("read the headers: %w", err)
	}
	was, will := osd.ParseHeaders(before), osd.ParseHeaders(headers)
	if len(was) != 2 || was[0].Err != nil || was[0].UUID != will[0].UUID || was[0].FSID != will[0].FSID || was[0].Sequence >= will[0].Sequence || was[0].SizeBytes != will[0].SizeBytes {
		return fmt.Errorf("%w: the headers on it are other ones than those that were copied", ErrNotOurs)
	}
	for _, off := range []int64{osd.HeaderBytes, 0} {
		if err := d.write(headers[off:off+osd.HeaderBytes], off); err != nil {
			return err
		}
		if err := d.sync(); err != nil {
			return err
		}
	}
	after := make([]byte, osd.HeadersBytes)
	if _, err := d.file.ReadAt(after, 0); err != nil {
		return fmt.Errorf("read the headers: %w", err)
	}
	if !bytes.Equal(after, headers) {
		return errors.New("the device does not keep what is written to it")
	}
	return nil
}

// Headers reads the headers of an encrypted OSD, for cryptsetup to work on in a file.
func (t *Tool) Headers(ctx context.Context, path, uuid string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := make([]byte, osd.SlotsBytes)
	if _, err := f.ReadAt(out, 0); err != nil {
		return nil, fmt.Errorf("headers on %s: %w", path, err)
	}
	if err := sealable(out, uuid, false); err != nil {
		return nil, fmt.Errorf("headers on %s: %w: %w", path, ErrNotOurs, err)
	}
	return out, nil
}

// Label reads the label at the start of an open OSD.
func (t *Tool) Label(ctx context.Context, path string) (osd.Label, error) {
	if err := ctx.Err(); err != nil {
		return osd.Label{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return osd.Label{}, err
	}
	defer f.Close()
	block := make([]byte, osd.BlockBytes)
	if _, err := f.ReadAt(block, 0); err != nil {
		return osd.Label{}, fmt.Errorf("label on %s: %w", path, err)
	}
	return osd.ParseLabel(block)
}

// sealable returns an error unless both headers are whole, of the OSD, and finished or not.
func sealable(b []byte, uuid string, ready bool) error {
	headers := osd.ParseHeaders(b)
	if len(headers) != 2 {
		return fmt.Errorf("%d headers of an encrypted OSD", len(headers))
	}
	for _, h := range headers {
		switch {
		case h.Err != nil:
			return fmt.Errorf("the header at %d: %w", h.Offset, h.Err)
		case h.UUID != uuid || h.Ready != ready:
			return fmt.Errorf("the header at %d is of OSD %s, finished: %t", h.Offset, h.UUID, h.Ready)
		}
	}
	return nil
}
