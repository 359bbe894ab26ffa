package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestProbe_errors(t *testing.T) {
	if _, err := New().Probe(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no device: %v", err)
	}
	if _, err := New().Probe(t.Context(), "/dev/null"); err == nil {
		t.Error("a character device is accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New().Probe(ctx, newImage(t, testSize)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := New().Wipe(ctx, newImageWithData(t), "d", accept); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled wipe: %v", err)
	}
}

func newImageWithData(t *testing.T) string {
	img := newImage(t, testSize)
	put(t, img, 0, "data")
	return img
}

func TestProbe_smallDevices(t *testing.T) {
	for _, size := range []int64{0, 512, 4096, 65536, mib, mib + 512, 2*mib - 512, 2 * mib} {
		img := newImage(t, size)
		if got := facts(t, img); !got.Clean() {
			t.Errorf("%d bytes: %+v", size, got)
		}
		if size == 0 {
			continue
		}
		put(t, img, size-1, "x")
		if got := facts(t, img); got.HeadTailZero {
			t.Errorf("%d bytes with data at the end count as zero", size)
		}
	}
}
