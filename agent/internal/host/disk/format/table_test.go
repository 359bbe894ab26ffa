package format

import (
	"bytes"
	"io"
	"slices"
	"testing"
)

// sparse is a large device that holds zeroes but for some bytes at one place.
type sparse struct {
	off  int64
	text string
}

func (s sparse) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	for i := range len(s.text) {
		if at := s.off + int64(i) - off; at >= 0 && at < int64(len(b)) {
			b[at] = s.text[i]
		}
	}
	return len(b), nil
}

// Every entry of the table is found at every place it names, on a device that has room for all of them. A wipe clears every such place, without
// having been told of it: it is at an end, or within what KnownFar lists.
func TestFind_everyMagicAtEveryPlace(t *testing.T) {
	const size = 1025 * gib
	for _, m := range magics {
		if m.check != nil {
			continue
		}
		for _, off := range m.at {
			if off < 0 {
				off += size
			}
			im, err := Load(sparse{off, m.bytes}, size)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			signatures, _, err := Find(im)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range signatures {
				found = found || (s.Type == m.kind && s.Offset == off)
			}
			if !found {
				t.Errorf("%s at %d is not found", m.kind, off)
			}
			if !wiped(off, int64(len(m.bytes)), size) {
				t.Errorf("a wipe would leave %s at %d", m.kind, off)
			}
			im.Free()
		}
	}
}

// wiped reports whether some bytes are where every wipe clears a device of this size.
func wiped(off, n, size int64) bool {
	return off+n <= Edge || off >= size-Edge ||
		slices.ContainsFunc(KnownFar(size), func(r Range) bool { return r.contains(off) && r.contains(off+n-1) })
}

func TestFoundFar(t *testing.T) {
	const size = 2 * gib
	im, err := Load(sparse{}, size)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Free()
	found := []Signature{{Offset: 0}, {Offset: size - 512}, {Offset: gib + 5}, {Offset: 300*mib + 512}, {Offset: 700 * mib}}
	want := []Range{{300 * mib, farBytes}, {700 * mib, farBytes}}
	if got := im.FoundFar(found, 10); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := im.FoundFar(found, 1); len(got) != 1 || got[0] != want[0] {
		t.Errorf("with a limit of 1: %v", got)
	}
}

// A device that cannot be read has no known content.
func TestFind_unreadable(t *testing.T) {
	head := bytes.Repeat([]byte{0}, 3*Edge)
	im, err := Load(io.NewSectionReader(bytes.NewReader(head), 0, int64(len(head))), int64(len(head)))
	if err != nil {
		t.Fatal(err)
	}
	defer im.Free()
	im.r = bytes.NewReader(nil)
	if found, _, err := Find(im); err == nil {
		t.Errorf("found %v, and no error", found)
	}
	if _, err := Load(bytes.NewReader(nil), Edge); err == nil {
		t.Error("a device without a head can be loaded")
	}
}
