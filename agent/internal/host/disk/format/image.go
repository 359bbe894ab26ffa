package format

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// Edge is how much of both ends of a device is looked at as a whole, in bytes.
const Edge = 1 << 20

// Image is a device while it is read: its two ends in memory, the rest read when asked for.
type Image struct {
	// Size is the device's, in bytes.
	Size int64
	// Head and Tail are its ends; TailOff is where the tail begins. On a small device they do not overlap: the tail is what the head left.
	Head, Tail []byte
	TailOff    int64

	r io.ReaderAt
	// err is the first error of a read.
	err     error
	buffers *[2][Edge]byte
}

// ends are pairs of buffers for the two ends: disks are looked at again and again, and two MiB for each look are most of what the
// agent would hold.
var ends = sync.Pool{New: func() any { return new([2][Edge]byte) }}

// Load reads the two ends of a device of the given size in bytes. Who is done with the image may free it.
func Load(r io.ReaderAt, size int64) (*Image, error) {
	im := &Image{r: r, Size: size, buffers: ends.Get().(*[2][Edge]byte)}
	var err error
	if im.Head, err = readInto(im.buffers[0][:], r, size, 0); err != nil {
		return nil, err
	}
	im.TailOff = max(int64(len(im.Head)), size-Edge)
	if im.Tail, err = readInto(im.buffers[1][:], r, size, im.TailOff); err != nil {
		return nil, err
	}
	return im, nil
}

// Free gives the buffers to the next image. This one has no content any more.
func (im *Image) Free() {
	im.Head, im.Tail, im.Size = nil, nil, 0
	ends.Put(im.buffers)
}

// at is n bytes at off, nil when the device does not have them all. Nothing keeps the slice.
func (im *Image) at(off int64, n int) []byte {
	end := off + int64(n)
	switch {
	case off < 0 || n <= 0 || end > im.Size || end < off:
		return nil
	case end <= int64(len(im.Head)):
		return im.Head[off:end]
	case off >= im.TailOff:
		return im.Tail[off-im.TailOff : end-im.TailOff]
	}
	buf, err := readAt(im.r, im.Size, off, n)
	if err != nil {
		if im.err == nil {
			im.err = err
		}
		return nil
	}
	return buf
}

// has reports whether the bytes stand at off.
func (im *Image) has(off int64, want string) bool {
	b := im.at(off, len(want))
	return b != nil && string(b) == want
}

// Zero reports whether both ends hold only zeroes.
func (im *Image) Zero() bool {
	return isZero(im.Head) && isZero(im.Tail)
}

func isZero(b []byte) bool {
	return len(b) == 0 || (b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]))
}

// readAt reads exactly n bytes, or fewer where the device ends; beyond the end it reads nothing.
func readAt(r io.ReaderAt, size, off int64, n int) ([]byte, error) {
	if off < 0 || off >= size {
		return nil, nil
	}
	return readInto(make([]byte, min(int64(n), size-off)), r, size, off)
}

// readInto is readAt into a buffer, as much as that holds.
func readInto(buf []byte, r io.ReaderAt, size, off int64) ([]byte, error) {
	if off < 0 || off >= size {
		return nil, nil
	}
	buf = buf[:min(int64(len(buf)), size-off)]
	if _, err := r.ReadAt(buf, off); err != nil {
		return nil, fmt.Errorf("read %d bytes at %d: %w", len(buf), off, err)
	}
	return buf, nil
}
