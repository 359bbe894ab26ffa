package disk

import (
	"sync"
	"testing"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

func TestContentDigest_sameForEmptyDisksOfAnyWay(t *testing.T) {
	for _, size := range []int64{4 << 20, 2 << 20, 1<<20 + 512} {
		f := facts(t, newImage(t, size))
		tail := min(size-format.Edge, format.Edge)
		if want := digestOf(make([]byte, format.Edge), make([]byte, tail)); f.ContentDigest != want {
			t.Errorf("%d bytes: digest %s, want %s", size, f.ContentDigest, want)
		}
	}
}

// A look at one device must not show what the one before left in the buffers.
func TestProbe_looksDoNotMix(t *testing.T) {
	dirty, small := newImage(t, 4<<20), newImage(t, format.Edge+512)
	put(t, dirty, 1000, "somebody's data")
	put(t, dirty, 4<<20-600, "and more")
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 20 {
				if f := facts(t, dirty); f.HeadTailZero {
					t.Error("a dirty device looks empty")
				}
				if f := facts(t, small); !f.HeadTailZero || f.ContentDigest != digestOf(make([]byte, format.Edge), make([]byte, 512)) {
					t.Errorf("an empty device looks dirty: %+v", f)
				}
			}
		})
	}
	done.Wait()
}
