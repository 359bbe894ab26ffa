package format

import (
	"errors"
	"io"
	"testing"

	"quarry.storage/quarry/pkg/osd"
)

// noting is a device that reads as zeroes but for a few places, and notes where it was read.
type noting struct {
	at    map[int64]string
	reads map[int64][]int
	fails int64
}

func (s noting) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	s.reads[off] = append(s.reads[off], len(p))
	if s.fails != 0 && off == s.fails && len(p) == osd.BlockBytes {
		return 0, io.ErrUnexpectedEOF
	}
	for at, text := range s.at {
		for i := range text {
			if n := at + int64(i) - off; n >= 0 && n < int64(len(p)) {
				p[n] = text[i]
			}
		}
	}
	return len(p), nil
}

// TestFind_bluestoreIsCheap: each place of a label costs a look one read, which stays within a page.
func TestFind_bluestoreIsCheap(t *testing.T) {
	dev := noting{reads: map[int64][]int{}}
	im, err := Load(dev, 2048*gib)
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := Find(im)
	if err != nil || len(found) > 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	if labels, err := im.LabelBlocks(found); err != nil || len(labels) > 0 {
		t.Errorf("%d labels: %v", len(labels), err)
	}
	for _, off := range bluestoreLabels[1:] {
		if got := dev.reads[off]; len(got) != 1 || got[0] > osd.BlockBytes {
			t.Errorf("reads at %d: %v", off, got)
		}
	}
}

func TestLabelBlocks(t *testing.T) {
	const magic = "bluestore block device\n"
	dev := noting{at: map[int64]string{gib: magic, 100 * gib: magic}, reads: map[int64][]int{}}
	im, err := Load(dev, 2048*gib)
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := Find(im)
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	labels, err := im.LabelBlocks(found)
	if err != nil || len(labels) != 2 || !labels[0].Far || labels[0].Offset != gib || len(labels[1].Bytes) != osd.BlockBytes {
		t.Errorf("%+v, %v", labels, err)
	}
	dev.fails = 100 * gib
	im.r = dev
	if _, err := im.LabelBlocks(found); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a label that cannot be read: %v", err)
	}
}
