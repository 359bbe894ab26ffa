package disk

import (
	"testing"
)

// TestProbe_bluestoreCopies: a disk whose first and last MiB somebody zeroed still is an OSD by the copies of its label. What stands in these is
// part of what is known of it.
func TestProbe_bluestoreCopies(t *testing.T) {
	const size = 12 * gib
	img := newImage(t, size)
	digests := map[string]string{"": "an empty disk"}
	differs := func(what string) {
		t.Helper()
		got := facts(t, img)
		if got.Clean() || !got.HeadTailZero {
			t.Fatalf("%s: %+v", what, got)
		}
		if other, known := digests[got.LabelDigest]; known {
			t.Errorf("%s: the same digest as %s", what, other)
		}
		digests[got.LabelDigest] = what
	}
	if got := facts(t, img); got.LabelDigest != "" || !got.Clean() {
		t.Fatalf("an empty disk: %+v", got)
	}
	put(t, img, gib, bluestoreLabel)
	differs("a label at 1 GiB")
	put(t, img, gib+4095, "x")
	differs("another last byte of it")
	put(t, img, 10*gib, bluestoreLabel)
	differs("a second label")
	put(t, img, gib+4096, "x")
	if got := facts(t, img); digests[got.LabelDigest] != "a second label" {
		t.Error("what stands behind a label counts as a part of it")
	}
	if err := New().Wipe(t.Context(), img, "d", accept); err != nil {
		t.Fatal(err)
	}
	if got := facts(t, img); !got.Clean() || got.LabelDigest != "" {
		t.Errorf("after the wipe: %+v", got)
	}
}

// TestProbe_bluestoreInVolumes: labels of OSDs in a volume may stand where those of a disk do, and change while the volume is in use.
func TestProbe_bluestoreInVolumes(t *testing.T) {
	img := newImage(t, 2*gib)
	putPV(t, img, true)
	put(t, img, gib, bluestoreLabel)
	if got := facts(t, img); got.LabelDigest != "" || got.PVUUID != pvUUID || !types(got)["ceph_bluestore"] {
		t.Errorf("%+v", got)
	}
}
