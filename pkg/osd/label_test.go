package osd_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
)

const (
	uuid  = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"
	fsid  = "11111111-2222-4333-8444-555555555555"
	other = "22222222-2222-4333-8444-555555555555"
	gib   = int64(1) << 30
)

// recorded is a block that ceph-osd 20.2.4 wrote, of which the zeroes at its end are left out in the file.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, osd.BlockBytes-len(b))...)
}

func TestParseLabel_recorded(t *testing.T) {
	got, err := osd.ParseLabel(recorded(t, "ready.label"))
	if err != nil || got.Born.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	got.Born = time.Time{}
	want := osd.Label{UUID: uuid, SizeBytes: 2 * gib, Description: "main", FSID: fsid, ID: "7", Ready: true, Epoch: got.Epoch}
	if diff := cmp.Diff(want, got); diff != "" || got.Epoch < 2 {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err = osd.ParseLabel(recorded(t, "unfinished.label"))
	if err != nil || got.UUID != uuid || got.Ready || got.FSID != "" || got.ID != "" {
		t.Errorf("killed in the making: %+v, %v", got, err)
	}
}

func TestParseLabel_written(t *testing.T) {
	want := osd.Label{
		UUID: uuid, SizeBytes: 5, Born: time.Unix(1700000000, 7).UTC(), Description: "main", FSID: fsid, ID: "0", Ready: true, Epoch: 9,
	}
	block := osdtest.Block(want, map[string]string{"osd_key": "secret", "magic": "ceph osd volume v026"})
	got, err := osd.ParseLabel(block)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestParseLabel_neverGuesses: a block of which a bit changed is no label, or a damaged one.
func TestParseLabel_neverGuesses(t *testing.T) {
	block := recorded(t, "ready.label")
	end := bytes.LastIndexFunc(block, func(r rune) bool { return r != 0 })
	for i := range block[:end+1] {
		for bit := range 8 {
			changed := slices.Clone(block)
			changed[i] ^= 1 << bit
			l, err := osd.ParseLabel(changed)
			if !errors.Is(err, osd.ErrNone) && !errors.Is(err, osd.ErrDamaged) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
			if l.Ready || l.FSID != "" || l.SizeBytes != 0 {
				t.Fatalf("bit %d of byte %d: %+v", bit, i, l)
			}
		}
	}
	for n := range len(block) {
		if _, err := osd.ParseLabel(block[:n]); err == nil {
			t.Fatalf("%d bytes are a label", n)
		}
	}
	for name, text := range map[string]string{"zeroes": "", "an ext4": "\x53\xef", "another word": "bluestore block devic\n"} {
		if _, err := osd.ParseLabel(append([]byte(text), make([]byte, osd.BlockBytes)...)); !errors.Is(err, osd.ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	swapped := slices.Clone(block)
	copy(swapped[23:], other)
	if l, err := osd.ParseLabel(swapped); !errors.Is(err, osd.ErrDamaged) || l.UUID != other {
		t.Errorf("another UUID for people: %+v, %v", l, err)
	}
}

func FuzzParseLabel(f *testing.F) {
	f.Add(osdtest.Block(osd.Label{UUID: uuid, Description: "main", Ready: true}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := osd.ParseLabel(b); err == nil && !osd.ValidUUID(l.UUID) {
			t.Errorf("%+v", l)
		}
	})
}

func TestPlaces(t *testing.T) {
	for size, want := range map[int64][]int64{
		0: nil, 4095: nil, 4096: {0}, gib: {0}, gib + 4095: {0}, gib + 4096: {0, gib}, 20 * gib: {0, gib, 10 * gib},
		4000 * gib: {0, gib, 10 * gib, 100 * gib, 1000 * gib},
	} {
		if got := osd.Places(size); !slices.Equal(got, want) {
			t.Errorf("%d bytes: %v", size, got)
		}
	}
}
