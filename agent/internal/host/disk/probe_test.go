package disk

import "testing"

func TestContentDigest_sameForEmptyDisksOfAnyWay(t *testing.T) {
	for _, size := range []int64{4 << 20, 2 << 20, 1<<20 + 512} {
		f := facts(t, newImage(t, size))
		tail := min(size-edge, edge)
		if want := digestOf(make([]byte, edge), make([]byte, tail)); f.ContentDigest != want {
			t.Errorf("%d bytes: digest %s, want %s", size, f.ContentDigest, want)
		}
	}
}
