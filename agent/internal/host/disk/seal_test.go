package disk

import (
	"errors"
	"os"
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
)

const osdFSID = "11111111-2222-4333-8444-555555555555"

var sealedOSD = osd.Wanted{UUID: osdUUID, FSID: osdFSID, ID: 7, Encrypted: true}

// sealedImage is what cryptsetup makes: headers, and a slot.
func sealedImage(uuid string, sequence uint64, ready bool) []byte {
	h := osd.Header{UUID: uuid, FSID: osdFSID, Sequence: sequence, SizeBytes: wholeDisk, Ready: ready}
	slot := make([]byte, osd.SlotsBytes-osd.HeadersBytes)
	for i := range slot {
		slot[i] = byte(1 + i%251)
	}
	return append(osdtest.Headers(h), slot...)
}

// judged is what the disk is to the Cluster.
func judged(t *testing.T, img string) osd.Kind {
	t.Helper()
	f := facts(t, img)
	c := osd.Contents{SizeBytes: f.SizeBytes, Clean: f.Clean(), Labels: f.Labels, Headers: f.Headers}
	for _, s := range f.Signatures {
		if !slices.ContainsFunc(f.Headers, func(h osd.Header) bool { return h.Offset == s.Offset && s.Type == "crypto_LUKS" }) {
			c.Others = append(c.Others, osd.Mark{Type: s.Type, Offset: s.Offset})
		}
	}
	return osd.Judge(sealedOSD, c).Kind
}

// TestSealOSD_killedBeforeEveryWrite: the disk is clean, or unfinished, and can be cleared and sealed anew, until it is finished.
func TestSealOSD_killedBeforeEveryWrite(t *testing.T) {
	made, done := sealedImage(osdUUID, 4, false), sealedImage(osdUUID, 5, true)[:osd.HeadersBytes]
	work := func(img string, tool *Tool) error {
		if err := tool.SealOSD(t.Context(), img, osdUUID, made, accept); err != nil {
			return err
		}
		return tool.FinishOSD(t.Context(), img, osdUUID, done, accept)
	}
	var seen []osd.Kind
	for n := 0; ; n++ {
		img := newImage(t, wholeDisk)
		err := work(img, dying(n))
		seen = append(seen, judged(t, img))
		if err == nil {
			break
		}
		if !errors.Is(err, errDied) {
			t.Fatalf("write %d: %v", n, err)
		}
		if judged(t, img) == osd.Ready {
			continue
		}
		if err := New().ClearOSD(t.Context(), img, osdUUID, accept); err != nil || judged(t, img) != osd.Empty {
			t.Fatalf("killed before write %d, cleared: %s, %v", n, judged(t, img), err)
		}
		if err := work(img, New()); err != nil || judged(t, img) != osd.Ready {
			t.Fatalf("killed before write %d, repeated: %s, %v", n, judged(t, img), err)
		}
	}
	if want := []osd.Kind{osd.Empty, osd.Unfinished, osd.Unfinished, osd.Unfinished, osd.Unfinished, osd.Ready, osd.Ready}; !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}

// TestClearOSD_sealedKilledBeforeEveryWrite: the disk is that OSD's until it is clean.
func TestClearOSD_sealedKilledBeforeEveryWrite(t *testing.T) {
	for n := 0; ; n++ {
		img := newImage(t, wholeDisk)
		put(t, img, 0, string(sealedImage(osdUUID, 5, true)))
		put(t, img, 64*mib+64, "_BHRfS_M")
		put(t, img, -512, "EFI PART")
		put(t, img, 300*mib, "cipher text")
		err := dying(n).ClearOSD(t.Context(), img, osdUUID, accept)
		if err == nil {
			break
		}
		if got := judged(t, img); !errors.Is(err, errDied) || got != osd.Ready && got != osd.Unfinished {
			t.Fatalf("killed before write %d: %s, %v", n, got, err)
		}
		if err := New().ClearOSD(t.Context(), img, osdUUID, accept); err != nil || !facts(t, img).Clean() {
			t.Fatalf("killed before write %d, repeated: %v", n, err)
		}
		if n > 4 && n%5 > 0 {
			n += 3
		}
	}
}

func TestSealOSD_writesNothing(t *testing.T) {
	refuse := func(*os.File) error { return errMoved }
	made, done := sealedImage(osdUUID, 4, false), sealedImage(osdUUID, 5, true)[:osd.HeadersBytes]
	seal := func(img string, image []byte, verify func(*os.File) error) error {
		return dying(0).SealOSD(t.Context(), img, osdUUID, image, verify)
	}
	finish := func(img string, headers []byte, verify func(*os.File) error) error {
		return dying(0).FinishOSD(t.Context(), img, osdUUID, headers, verify)
	}
	holds := func(b []byte) func(string) { return func(img string) { put(t, img, 0, string(b)) } }
	for name, tt := range map[string]struct {
		fill   func(img string)
		do     func(string, []byte, func(*os.File) error) error
		image  []byte
		verify func(*os.File) error
		want   error
	}{
		"a disk with data":             {func(img string) { put(t, img, 900, "data") }, seal, made, accept, ErrNotClean},
		"a disk with a filesystem":     {func(img string) { put(t, img, 1080, "\x53\xef") }, seal, made, accept, ErrNotClean},
		"one that was not verified":    {func(string) {}, seal, made, refuse, errMoved},
		"headers of another OSD":       {func(string) {}, seal, sealedImage(otherUUID, 4, false), accept, errImage},
		"headers that are finished":    {func(string) {}, seal, sealedImage(osdUUID, 4, true), accept, errImage},
		"headers without a slot":       {func(string) {}, seal, made[:osd.HeadersBytes], accept, errImage},
		"no headers":                   {func(string) {}, seal, make([]byte, osd.SlotsBytes), accept, errImage},
		"to finish a clean disk":       {func(string) {}, finish, done, accept, ErrNotOurs},
		"to finish another OSD":        {holds(sealedImage(otherUUID, 4, false)), finish, done, accept, ErrNotOurs},
		"to finish a younger one":      {holds(sealedImage(osdUUID, 6, false)), finish, done, accept, ErrNotOurs},
		"to finish one not verified":   {holds(made), finish, done, refuse, errMoved},
		"to finish with an unfinished": {holds(made), finish, sealedImage(osdUUID, 5, false)[:osd.HeadersBytes], accept, errImage},
	} {
		img := newImage(t, wholeDisk)
		tt.fill(img)
		if err := tt.do(img, tt.image, tt.verify); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, fill := range map[string]func(string){
		"another encrypted OSD": holds(sealedImage(otherUUID, 4, true)),
		"without a first header": func(img string) {
			put(t, img, osd.HeaderBytes, string(made[osd.HeaderBytes:]))
		},
		"with a label in the clear": func(img string) { put(t, img, 0, string(made)); putLabel(t, img, osdUUID, gib, true) },
	} {
		img := newImage(t, wholeDisk)
		fill(img)
		if err := dying(0).ClearOSD(t.Context(), img, osdUUID, accept); !errors.Is(err, ErrNotOurs) {
			t.Errorf("clear %s: %v", name, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	img := newImage(t, wholeDisk)
	made := sealedImage(osdUUID, 4, false)
	put(t, img, 0, string(made))
	if got, err := New().Headers(t.Context(), img, osdUUID); err != nil || !slices.Equal(got, made) {
		t.Error(err)
	}
	if _, err := New().Headers(t.Context(), img, otherUUID); !errors.Is(err, ErrNotOurs) {
		t.Error(err)
	}
	if _, err := New().Label(t.Context(), img); !errors.Is(err, osd.ErrNone) {
		t.Error(err)
	}
	putLabel(t, img, osdUUID, 0, true)
	if l, err := New().Label(t.Context(), img); err != nil || l.UUID != osdUUID || !l.Ready {
		t.Errorf("%+v, %v", l, err)
	}
}
