package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"testing"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

var (
	errDied   = errors.New("died")
	errMoved  = errors.New("another disk")
	accept    = func(*os.File) error { return nil }
	wholeDisk = 3 * gib
)

// dying is a Tool that dies before its nth write, counted from 0.
func dying(n int) *Tool {
	t := New()
	t.beforeWrite = func(int64, int) error {
		if n--; n < 0 {
			return errDied
		}
		return nil
	}
	return t
}

// fillDirty puts signatures at both ends, in the middle, and unknown data into the head.
func fillDirty(t *testing.T, img string) {
	t.Helper()
	put(t, img, 0, "bluestore block device\n00000000-1111-2222-3333-444444444444")
	put(t, img, 1030, "unknown")
	put(t, img, gib, "bluestore block device\n00000000-1111-2222-3333-444444444444")
	put(t, img, 64*mib+64, "_BHRfS_M")
	put(t, img, -512, "EFI PART")
	put(t, img, -4096, "EFI PART")
	put(t, img, 8192, "more")
	// A primary header whose backup stands in the middle, as on a disk that has grown.
	header := []byte("EFI PART" + string(make([]byte, 84)))
	binary.LittleEndian.PutUint64(header[32:], 300*1024*1024/512)
	put(t, img, 512, string(header))
	put(t, img, 300*mib, "EFI PART")
}

func hash(t *testing.T, img string) [32]byte {
	t.Helper()
	f, err := os.Open(img)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	for _, r := range append(format.KnownFar(wholeDisk), format.Range{Bytes: 2 * mib}, format.Range{Offset: wholeDisk - 2*mib, Bytes: 2 * mib},
		format.Range{Offset: 300 * mib, Bytes: 4096}) {
		if _, err := io.Copy(h, io.NewSectionReader(f, r.Offset, r.Bytes)); err != nil {
			t.Fatal(err)
		}
	}
	return [32]byte(h.Sum(nil))
}

func TestWipe_killedBeforeEveryWrite(t *testing.T) {
	clean := hash(t, newImage(t, wholeDisk))
	for n := 0; ; n++ {
		img := newImage(t, wholeDisk)
		fillDirty(t, img)
		err := dying(n).Wipe(t.Context(), img, "d1", accept)
		if err == nil {
			if n < 10 {
				t.Fatalf("only %d writes", n)
			}
			break
		}
		if !errors.Is(err, errDied) {
			t.Fatalf("write %d: %v", n, err)
		}
		got := facts(t, img)
		if n > 0 && (got.Wipe == nil || got.Wipe.Digest != "d1") {
			t.Fatalf("killed before write %d: mark %+v", n, got.Wipe)
		}
		if n > 0 && len(got.Wipe.Later(got.Signatures)) > 0 {
			t.Fatalf("killed before write %d: the approval does not cover %+v", n, got.Wipe.Later(got.Signatures))
		}
		if got.Clean() {
			t.Fatalf("killed before write %d: counts as clean", n)
		}
		if n > 0 {
			if err := New().Wipe(t.Context(), img, "d2", accept); !errors.Is(err, ErrMark) {
				t.Fatalf("a wipe with another digest: %v", err)
			}
		}
		if err := New().Wipe(t.Context(), img, "d1", accept); err != nil {
			t.Fatalf("killed before write %d, repeated: %v", n, err)
		}
		if hash(t, img) != clean {
			t.Fatalf("killed before write %d, repeated: not the same end", n)
		}
	}
}

// TestWipe_interruptedAndUsedSince: what somebody put on a disk after a wipe was interrupted is no part of what was approved.
func TestWipe_interruptedAndUsedSince(t *testing.T) {
	img := newImage(t, wholeDisk)
	fillDirty(t, img)
	if err := dying(3).Wipe(t.Context(), img, "d1", accept); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	put(t, img, 4096, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00")
	put(t, img, 500*mib, "kept")
	got := facts(t, img)
	if got.Wipe == nil || len(got.Wipe.Later(got.Signatures)) == 0 {
		t.Fatalf("%+v", got)
	}
	// The caller who describes what is there now is not held up by the mark, and the rest of the earlier wipe is done with it.
	if err := dying(2).Wipe(t.Context(), img, "d2", accept); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	if again := facts(t, img); again.Wipe == nil || again.Wipe.Digest != "d2" || len(again.Wipe.Later(again.Signatures)) > 0 {
		t.Errorf("%+v", again)
	}
	if err := New().Wipe(t.Context(), img, "d1", accept); !errors.Is(err, ErrMark) {
		t.Errorf("the earlier approval: %v", err)
	}
	if err := New().Wipe(t.Context(), img, "d2", accept); err != nil {
		t.Fatal(err)
	}
	if hash(t, img) != hash(t, newImage(t, wholeDisk)) {
		t.Error("not clean")
	}
}

// TestMark_ofAnEarlierVersion covers nothing: it does not say what was on the disk.
func TestMark_ofAnEarlierVersion(t *testing.T) {
	b, err := Mark{Digest: "abc", ranges: []format.Range{{Offset: 1, Bytes: 2}}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	old := b[:len(markMagic)+2+2+3+2+16]
	le.PutUint16(old[len(markMagic):], 2+3+2+16)
	old = append(le.AppendUint32(old, crc32.Checksum(old, crc32.MakeTable(crc32.Castagnoli))), make([]byte, markBytes)...)
	m := decodeMark(old[:markBytes])
	if m == nil || m.Digest != "abc" || len(m.ranges) != 1 {
		t.Fatalf("%+v", m)
	}
	if got := m.Later([]format.Signature{{Type: markType}, {Type: "gpt", Offset: 512}}); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	full := Mark{Digest: string(make([]byte, 67)), ranges: make([]format.Range, markRanges)}
	full.cover(make([]format.Signature, markSignatures))
	if b, err := full.encode(); err != nil || len(decodeMark(b).covers) != markSignatures {
		t.Errorf("a full mark does not fit: %v", err)
	}
	if full.cover(make([]format.Signature, markSignatures+1)); len(full.covers) != 0 {
		t.Errorf("%d signatures are on record", len(full.covers))
	}
}

func TestWipe_writesNothing(t *testing.T) {
	img := newImage(t, testSize)
	if err := dying(0).Wipe(t.Context(), img, "d", accept); err != nil {
		t.Errorf("a clean device: %v", err)
	}
	put(t, img, 1080, "\x53\xef")
	refuse := func(*os.File) error { return errMoved }
	if err := dying(0).Wipe(t.Context(), img, "d", refuse); !errors.Is(err, errMoved) {
		t.Errorf("a device that was not verified: %v", err)
	}
}

func TestWipe_verifySeesTheOpenFile(t *testing.T) {
	img := newImage(t, testSize)
	put(t, img, 32*kib, "data")
	want := facts(t, img).ContentDigest
	verify := func(f *os.File) error {
		got, err := ProbeFile(f)
		if err != nil || got.ContentDigest != want || got.SizeBytes != testSize {
			t.Errorf("through the open file: %+v, %v", got, err)
		}
		return nil
	}
	if err := New().Wipe(t.Context(), img, "d", verify); err != nil {
		t.Error(err)
	}
}

func TestMark_damagedIsNone(t *testing.T) {
	m := Mark{Digest: "abc", ranges: []format.Range{{Offset: 1, Bytes: 2}, {Offset: 3 << 40, Bytes: 4}}}
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got := decodeMark(b); got == nil || got.Digest != "abc" || len(got.ranges) != 2 || got.ranges[1] != m.ranges[1] {
		t.Errorf("got %+v", got)
	}
	for i := range 40 {
		damaged := append([]byte(nil), b...)
		damaged[i] ^= 1
		if got := decodeMark(damaged); got != nil {
			t.Errorf("byte %d changed: %+v", i, got)
		}
	}
	if _, err := (Mark{Digest: string(make([]byte, 600))}).encode(); err == nil {
		t.Error("a digest that does not fit is accepted")
	}
}
