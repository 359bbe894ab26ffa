package disk

import (
	"errors"
	"os"
	"testing"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
)

const (
	osdUUID   = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"
	otherUUID = "aaaaaaaa-bbbb-5ccc-8ddd-000000000000"
)

// putLabel writes a whole label of an OSD.
func putLabel(t *testing.T, img, uuid string, off int64, ready bool) {
	t.Helper()
	l := osd.Label{UUID: uuid, SizeBytes: wholeDisk, Description: "main", Ready: ready, Epoch: 3}
	put(t, img, off, string(osdtest.Block(l, nil)))
}

// fillOSD makes a disk what one looks like with an OSD that was used.
func fillOSD(t *testing.T, img string) {
	t.Helper()
	putLabel(t, img, osdUUID, 0, true)
	putLabel(t, img, osdUUID, gib, true)
	put(t, img, 4096, "the superblock of BlueFS")
	put(t, img, 64*mib+64, "_BHRfS_M")
	put(t, img, -512, "EFI PART")
	put(t, img, 900*mib, "data")
}

func TestProbe_labels(t *testing.T) {
	img := newImage(t, wholeDisk)
	putLabel(t, img, osdUUID, 0, true)
	put(t, img, gib, bluestoreLabel)
	got := facts(t, img).Labels
	if len(got) != 2 || got[0].Err != nil || !got[0].Label.Ready || got[0].Label.UUID != osdUUID || got[0].Label.SizeBytes != wholeDisk {
		t.Fatalf("%+v", got)
	}
	if got[1].Offset != gib || !errors.Is(got[1].Err, osd.ErrDamaged) {
		t.Errorf("%+v", got[1])
	}
}

// TestClearOSD_killedBeforeEveryWrite: the disk is that OSD's by its own writing until it is clean.
func TestClearOSD_killedBeforeEveryWrite(t *testing.T) {
	for name, fill := range map[string]func(t *testing.T, img string){
		"a whole OSD":       fillOSD,
		"only its copy":     func(t *testing.T, img string) { putLabel(t, img, osdUUID, gib, false); put(t, img, 8192, "more") },
		"only its label":    func(t *testing.T, img string) { putLabel(t, img, osdUUID, 0, false); put(t, img, 8192, "more") },
		"nothing else left": func(t *testing.T, img string) { putLabel(t, img, osdUUID, 0, true) },
	} {
		for n := 0; ; n++ {
			img := newImage(t, wholeDisk)
			fill(t, img)
			err := dying(n).ClearOSD(t.Context(), img, osdUUID, accept)
			if err == nil {
				if n < 6 {
					t.Fatalf("%s: only %d writes", name, n)
				}
				break
			}
			if !errors.Is(err, errDied) {
				t.Fatalf("%s, write %d: %v", name, n, err)
			}
			if got := facts(t, img); len(got.Labels) == 0 || got.Labels[0].Err != nil || got.Labels[0].Label.UUID != osdUUID {
				t.Fatalf("%s, killed before write %d: %+v", name, n, got.Labels)
			}
			if err := New().ClearOSD(t.Context(), img, osdUUID, accept); err != nil {
				t.Fatalf("%s, killed before write %d, repeated: %v", name, n, err)
			}
			if got := facts(t, img); !got.Clean() {
				t.Fatalf("%s, killed before write %d, repeated: %+v", name, n, got)
			}
			if n > 4 && n%5 > 0 {
				n += 3 // Zeroing a range takes many writes that are alike.
			}
		}
	}
}

func TestClearOSD_writesNothing(t *testing.T) {
	refuse := func(*os.File) error { return errMoved }
	for name, tt := range map[string]struct {
		fill   func(img string)
		uuid   string
		verify func(*os.File) error
		want   error
	}{
		"a clean device":              {func(string) {}, osdUUID, accept, nil},
		"another OSD":                 {func(img string) { putLabel(t, img, otherUUID, 0, true) }, osdUUID, accept, ErrNotOurs},
		"another OSD's copy":          {func(img string) { putLabel(t, img, otherUUID, gib, true) }, osdUUID, accept, ErrNotOurs},
		"the OSD over another one":    {func(img string) { putLabel(t, img, osdUUID, 0, true); putLabel(t, img, otherUUID, gib, true) }, osdUUID, accept, ErrNotOurs},
		"the OSD with a damaged copy": {func(img string) { putLabel(t, img, osdUUID, 0, true); put(t, img, gib, bluestoreLabel) }, osdUUID, accept, ErrNotOurs},
		"a filesystem":                {func(img string) { put(t, img, 1080, "\x53\xef") }, osdUUID, accept, ErrNotOurs},
		"unknown data":                {func(img string) { put(t, img, 8192, "data") }, osdUUID, accept, ErrNotOurs},
		"no UUID":                     {func(img string) { put(t, img, 8192, "data") }, "", accept, ErrNotOurs},
		"one that was not verified":   {func(img string) { fillOSD(t, img) }, osdUUID, refuse, errMoved},
	} {
		img := newImage(t, wholeDisk)
		tt.fill(img)
		if err := dying(0).ClearOSD(t.Context(), img, tt.uuid, tt.verify); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRange_Without(t *testing.T) {
	r := format.Range{Offset: 10, Bytes: 10}
	for o, want := range map[format.Range][]format.Range{
		{Offset: 0, Bytes: 10}:  {r},
		{Offset: 20, Bytes: 10}: {r},
		{Offset: 0, Bytes: 15}:  {{Offset: 15, Bytes: 5}},
		{Offset: 15, Bytes: 15}: {{Offset: 10, Bytes: 5}},
		{Offset: 12, Bytes: 3}:  {{Offset: 10, Bytes: 2}, {Offset: 15, Bytes: 5}},
		{Offset: 0, Bytes: 50}:  nil,
	} {
		got := r.Without(o)
		if len(got) != len(want) || len(got) > 0 && (got[0] != want[0] || got[len(got)-1] != want[len(want)-1]) {
			t.Errorf("%v without %v: %v, want %v", r, o, got, want)
		}
	}
}
