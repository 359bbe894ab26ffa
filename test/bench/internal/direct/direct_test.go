package direct

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const (
	mib   = 1 << 20
	block = 4096
)

// file is one with that many bytes of zeroes.
func file(t *testing.T, name string, bytes int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// extents opens bytes of a file as a cache shows them: what the test's filesystem can do does not matter.
func extents(t *testing.T, path string, start, length int64) *Extents {
	t.Helper()
	e, err := open(path, start, length, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestPair_writesOnlyItsExtents(t *testing.T) {
	path := file(t, "lun", 4*mib)
	p, err := NewPair(extents(t, path, mib, 2*mib), extents(t, path, mib, 2*mib), mib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for _, w := range []Work{{Bytes: block, Requests: 50}, {Bytes: block, Requests: 50, Write: true}, {Bytes: mib, Requests: 5, Write: true, Sequential: true}} {
		more, second, err := p.Run(w)
		if err != nil || second <= 0 || more+second <= 0 {
			t.Errorf("%+v: %v, %v, %v", w, more, second, err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zero := func(from, to int) bool {
		return !slices.ContainsFunc(content[from:to], func(b byte) bool { return b != 0 })
	}
	if !zero(0, mib) || !zero(3*mib, 4*mib) {
		t.Error("something was written outside of the extents")
	}
	for at := mib; at < 3*mib; at += block {
		if zero(at, at+block) {
			t.Fatalf("the block at %d was never filled", at)
		}
	}
}

func TestNewPair_refuses(t *testing.T) {
	path, other := file(t, "lun", 4*mib), file(t, "other", 4*mib)
	if _, err := NewPair(extents(t, path, 0, mib), extents(t, other, 0, mib), mib); err == nil {
		t.Error("two devices with different bytes are compared")
	}
	if _, err := NewPair(extents(t, path, 0, mib), extents(t, path, 0, 2*mib), mib); err == nil {
		t.Error("extents of different lengths are compared")
	}
}

func TestOpen_refuses(t *testing.T) {
	path := file(t, "lun", mib)
	for name, where := range map[string][2]int64{
		"more than there is": {block, mib}, "no whole block": {0, 100}, "a start inside a block": {100, block}, "nothing": {0, 0}, "less than nothing": {-block, block},
	} {
		if _, err := open(path, where[0], where[1], 0); err == nil {
			t.Errorf("%s is opened", name)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "absent"), 0, block); err == nil {
		t.Error("an absent device is opened")
	}
}

func TestPair_runRefuses(t *testing.T) {
	path := file(t, "lun", mib)
	p, err := NewPair(extents(t, path, 0, mib), extents(t, path, 0, mib), 64*block)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for _, bytes := range []int{0, 100, 65 * block, 2 * mib} {
		if _, _, err := p.Run(Work{Bytes: bytes, Requests: 1}); err == nil {
			t.Errorf("requests of %d bytes are made", bytes)
		}
	}
}

func TestWork_offsets(t *testing.T) {
	sequential := Work{Bytes: block, Requests: 40, Sequential: true}.offsets(16 * block)
	for i, at := range sequential {
		if i > 0 && at != (sequential[i-1]+block)%(16*block) {
			t.Fatalf("not one after the other: %v", sequential)
		}
	}
	random := Work{Bytes: block, Requests: 1000}.offsets(16 * block)
	seen := map[int64]bool{}
	for _, at := range random {
		if at < 0 || at > 15*block || at%block != 0 {
			t.Fatalf("a request at %d", at)
		}
		seen[at] = true
	}
	if len(seen) != 16 {
		t.Errorf("%d of 16 places in a thousand requests", len(seen))
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		times []time.Duration
		want  time.Duration
	}{{nil, 0}, {[]time.Duration{7}, 7}, {[]time.Duration{9, 1, 1000}, 9}, {[]time.Duration{9, 1, 1000, 11}, 10}} {
		if got := median(c.times); got != c.want {
			t.Errorf("%v: %v", c.times, got)
		}
	}
}

// TestCompared_withinAPlace: the machine slows down in the middle, and met one request of the first only.
func TestCompared_withinAPlace(t *testing.T) {
	first := []time.Duration{11, 12, 9000, 1011, 1012}
	second := []time.Duration{10, 11, 900, 1010, 1011}
	if more, past := compared(first, second); more != 1 || past != 900 {
		t.Errorf("%v more than %v", more, past)
	}
	if more, past := compared([]time.Duration{8}, []time.Duration{10}); more != -2 || past != 10 {
		t.Errorf("%v more than %v", more, past)
	}
}
