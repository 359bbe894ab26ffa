package disk

import (
	"bytes"
	"io"
	"sync"
)

// edge is how much of both ends of a device is looked at as a whole.
const edge = 1 << 20

// image is a device while it is probed: its two ends in memory, the rest read when asked for. The first error sticks.
type image struct {
	r       io.ReaderAt
	size    int64
	sector  int
	head    []byte
	tail    []byte
	tailOff int64
	buffers *[2][edge]byte
	err     error
}

// ends are pairs of buffers for the two ends: disks are looked at again and again, and two MiB for each look are most of what the
// agent would hold.
var ends = sync.Pool{New: func() any { return new([2][edge]byte) }}

// load reads the two ends. On a small device they do not overlap: the tail is what the head left. Who is done with the image may
// free it.
func load(r io.ReaderAt, size int64, sector int) (*image, error) {
	im := &image{r: r, size: size, sector: sector, buffers: ends.Get().(*[2][edge]byte)}
	var err error
	if im.head, err = readInto(im.buffers[0][:], r, size, 0); err != nil {
		return nil, err
	}
	im.tailOff = max(int64(len(im.head)), size-edge)
	if im.tail, err = readInto(im.buffers[1][:], r, size, im.tailOff); err != nil {
		return nil, err
	}
	return im, nil
}

// free gives the buffers to the next image. This one has no content any more.
func (im *image) free() {
	im.head, im.tail, im.size = nil, nil, 0
	ends.Put(im.buffers)
}

// at is n bytes at off, nil when the device does not have them all. Nothing keeps the slice.
func (im *image) at(off int64, n int) []byte {
	end := off + int64(n)
	switch {
	case off < 0 || n <= 0 || end > im.size || end < off:
		return nil
	case end <= int64(len(im.head)):
		return im.head[off:end]
	case off >= im.tailOff:
		return im.tail[off-im.tailOff : end-im.tailOff]
	}
	buf, err := readAt(im.r, im.size, off, n)
	if err != nil {
		if im.err == nil {
			im.err = err
		}
		return nil
	}
	return buf
}

// has tells whether the bytes stand at off.
func (im *image) has(off int64, want string) bool {
	b := im.at(off, len(want))
	return b != nil && string(b) == want
}

// zero tells whether both ends hold only zeroes.
func (im *image) zero() bool {
	return isZero(im.head) && isZero(im.tail)
}

func isZero(b []byte) bool {
	return len(b) == 0 || (b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]))
}
