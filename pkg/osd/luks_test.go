package osd_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
)

// sealedHeaders are headers that cryptsetup wrote; testdata/luks.sh recorded them.
func sealedHeaders(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseHeaders_recorded(t *testing.T) {
	for name, ready := range map[string]bool{"luks-made": false, "luks-ready": true, "luks-added": true} {
		b := sealedHeaders(t, name)
		got := osd.ParseHeaders(b)
		if len(got) != 2 || len(b) != osd.HeadersBytes {
			t.Fatalf("%s: %+v", name, got)
		}
		for i, h := range got {
			if h.Err != nil || h.UUID != uuid || h.FSID != fsid || h.SizeBytes != 2*gib || h.Ready != ready || h.Offset != int64(i)*osd.HeaderBytes || h.Sequence == 0 {
				t.Errorf("%s: %+v", name, h)
			}
		}
	}
	// What the tests write is read as what cryptsetup writes.
	want := osd.ParseHeaders(sealedHeaders(t, "luks-ready"))
	if got := osd.ParseHeaders(osdtest.Headers(want[0])); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestJudge_making: an encrypted OSD is the same making while the word that it ended is added, and keys are. One that is encrypted anew is another.
func TestJudge_making(t *testing.T) {
	of := func(name string) string {
		return osd.Judge(osd.Wanted{UUID: uuid, FSID: fsid, ID: 7, Encrypted: true}, osd.Contents{SizeBytes: 2 * gib, Headers: osd.ParseHeaders(sealedHeaders(t, name))}).Making
	}
	// luks-added was recorded of another disk than the first two.
	made, ready, added := of("luks-made"), of("luks-ready"), of("luks-added")
	if made == "" || made != ready || added == "" || added == made {
		t.Errorf("made %q, ready %q, another %q", made, ready, added)
	}
	changed, before := osd.ParseHeaders(sealedHeaders(t, "luks-changed")), osd.ParseHeaders(sealedHeaders(t, "luks-added"))
	// That of the second header is not read.
	if changed[0].Salt != before[0].Salt || len(before[0].Salt) != 128 || before[1].Salt != "" {
		t.Errorf("another key makes another salt: %+v, %+v", before, changed)
	}
	label, err := osd.ParseLabel(recorded(t, "ready.label"))
	if err != nil {
		t.Fatal(err)
	}
	clear := func(changes ...func(*osd.Label)) string {
		l := label
		for _, change := range changes {
			change(&l)
		}
		return osd.Judge(wanted, osd.Contents{SizeBytes: 2 * gib, Labels: []osd.Found{{Label: l}}}).Making
	}
	whole := clear()
	if whole == "" || whole != clear(func(l *osd.Label) { l.Epoch++ }) || whole != clear(func(l *osd.Label) { l.Ready = false }) || whole == clear(func(l *osd.Label) { l.Born = l.Born.Add(1) }) {
		t.Errorf("in the clear: %q", whole)
	}
	if v := osd.Judge(wanted, osd.Contents{Clean: true}); v.Making != "" {
		t.Errorf("%+v", v)
	}
}

// TestParseHeaders_kinds: what cryptsetup wrote later is told from what was not written to its end, and from what was damaged.
func TestParseHeaders_kinds(t *testing.T) {
	for name, tt := range map[string]struct {
		from   string
		change func(b []byte)
		want   error
	}{
		"the key was changed":       {"luks-changed", func([]byte) {}, osd.ErrAltered},
		"nothing after 4 KiB":       {"luks-ready", func(b []byte) { clear(b[osd.BlockBytes:osd.HeaderBytes]) }, osd.ErrCut},
		"its text ends after 512":   {"luks-ready", func(b []byte) { clear(b[osd.BlockBytes+512 : osd.HeaderBytes]) }, osd.ErrCut},
		"a changed byte":            {"luks-ready", func(b []byte) { b[osd.BlockBytes+100] ^= 1 }, osd.ErrTorn},
		"a sector of zeroes":        {"luks-ready", func(b []byte) { clear(b[osd.BlockBytes : osd.BlockBytes+512]) }, osd.ErrTorn},
		"a changed byte in the sum": {"luks-ready", func(b []byte) { b[450] ^= 1 }, osd.ErrTorn},
		"another size":              {"luks-ready", func(b []byte) { b[15] ^= 1 }, osd.ErrAltered},
	} {
		b := sealedHeaders(t, tt.from)
		tt.change(b)
		got := osd.ParseHeaders(b)
		if len(got) != 2 || !errors.Is(got[0].Err, tt.want) || got[0].UUID != uuid {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestParseHeaders_neverGuesses: a header with a byte changed is of another one, or none, or not whole.
func TestParseHeaders_neverGuesses(t *testing.T) {
	whole := sealedHeaders(t, "luks-ready")
	r := rand.New(rand.NewPCG(5, 6))
	for at := 0; at < 5200; at += 1 + at/600*7 {
		for _, off := range []int{0, osd.HeaderBytes} {
			b := bytes.Clone(whole)
			b[off+at] ^= byte(1 + r.IntN(255))
			for _, h := range osd.ParseHeaders(b) {
				if int(h.Offset) == off && h.Err == nil && (at < 448+32 || at >= 512) {
					t.Fatalf("byte %d of the header at %d changed: %+v", at, off, h)
				}
			}
		}
	}
	for name, change := range map[string]func(b []byte){
		"the first version":  func(b []byte) { b[7] = 1 },
		"another label":      func(b []byte) { copy(b[24:], "quarry-osb") },
		"nothing":            func(b []byte) { clear(b[:8]) },
		"the second's magic": func(b []byte) { copy(b, "SKUL") },
	} {
		b := bytes.Clone(whole)
		change(b)
		if got := osd.ParseHeaders(b); len(got) != 1 || got[0].Offset == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, short := range []int{0, 100, osd.HeaderBytes - 1} {
		if got := osd.ParseHeaders(whole[:short]); len(got) > 0 {
			t.Errorf("%d bytes: %+v", short, got)
		}
	}
}

func TestMapping(t *testing.T) {
	if got := osd.MappingUUID(uuid); got != "CRYPT-LUKS2-"+strings.ReplaceAll(uuid, "-", "")+"-quarry-osd-"+uuid {
		t.Error(got)
	}
}

// sealed is a header of the wanted OSD, with changes.
func sealed(off int64, changes ...func(*osd.Header)) osd.Header {
	h := osd.Header{Offset: off, UUID: uuid, FSID: fsid, Sequence: 5, SizeBytes: 2 * gib, Ready: true}
	for _, change := range changes {
		change(&h)
	}
	return h
}

func undone(h *osd.Header) { h.Ready, h.Sequence = false, h.Sequence-1 }
func torn(h *osd.Header) {
	h.Err, h.Ready, h.SizeBytes = osd.ErrTorn, false, 0
}
func cut(h *osd.Header)     { torn(h); h.Err = osd.ErrCut }
func altered(h *osd.Header) { torn(h); h.Err = osd.ErrAltered }

func TestJudge_sealed(t *testing.T) {
	const second = osd.HeaderBytes
	alien := func(h *osd.Header) { h.UUID = other }
	both := func(changes ...func(*osd.Header)) []osd.Header {
		return []osd.Header{sealed(0, changes...), sealed(second, changes...)}
	}
	for name, tt := range map[string]struct {
		contents osd.Contents
		want     osd.Kind
		says     string
	}{
		"the OSD":                               {osd.Contents{Headers: both()}, osd.Ready, ""},
		"its data look like something":          {osd.Contents{Headers: both(), Others: []osd.Mark{{Type: "btrfs", Offset: 64 << 20}}}, osd.Ready, ""},
		"killed after the first 4 KiB":          {osd.Contents{Headers: []osd.Header{sealed(0, cut)}}, osd.Unfinished, "not written to the end"},
		"damaged, and the second one gone":      {osd.Contents{Headers: []osd.Header{sealed(0, torn)}}, osd.Unknown, "wrong check sum"},
		"killed while the first is written 2":   {osd.Contents{Headers: []osd.Header{sealed(0, cut), sealed(second)}}, osd.Ready, ""},
		"cut, and the second one damaged":       {osd.Contents{Headers: []osd.Header{sealed(0, cut), sealed(second, torn)}}, osd.Unknown, "may hold data"},
		"altered":                               {osd.Contents{Headers: both(altered)}, osd.Unknown, "altered"},
		"one altered":                           {osd.Contents{Headers: []osd.Header{sealed(0), sealed(second, altered)}}, osd.Unknown, "altered"},
		"altered in the making":                 {osd.Contents{Headers: []osd.Header{sealed(0, undone), sealed(second, altered)}}, osd.Unknown, "altered"},
		"killed before the second header":       {osd.Contents{Headers: []osd.Header{sealed(0, undone)}}, osd.Unfinished, "did not end"},
		"killed before the token":               {osd.Contents{Headers: both(undone)}, osd.Unfinished, "did not end"},
		"killed while the second is written":    {osd.Contents{Headers: []osd.Header{sealed(0, undone), sealed(second, torn)}}, osd.Unfinished, ""},
		"killed between the two":                {osd.Contents{Headers: []osd.Header{sealed(0, undone), sealed(second)}}, osd.Ready, ""},
		"killed while the first is written":     {osd.Contents{Headers: []osd.Header{sealed(0, torn), sealed(second)}}, osd.Ready, ""},
		"the second one torn":                   {osd.Contents{Headers: []osd.Header{sealed(0), sealed(second, torn)}}, osd.Ready, ""},
		"both torn":                             {osd.Contents{Headers: both(torn)}, osd.Unknown, "may hold data"},
		"the first one gone":                    {osd.Contents{Headers: []osd.Header{sealed(second)}}, osd.Unknown, "repair"},
		"the younger one without the token":     {osd.Contents{Headers: []osd.Header{sealed(0), sealed(second, func(h *osd.Header) { h.Ready, h.Sequence = false, 9 })}}, osd.Unknown, "contradict"},
		"one age, and the token in one":         {osd.Contents{Headers: []osd.Header{sealed(0), sealed(second, func(h *osd.Header) { h.Ready = false })}}, osd.Unknown, "contradict"},
		"two sizes":                             {osd.Contents{Headers: []osd.Header{sealed(0), sealed(second, func(h *osd.Header) { h.SizeBytes = gib })}}, osd.Unknown, "contradict"},
		"a disk that is smaller":                {osd.Contents{SizeBytes: gib, Headers: both()}, osd.Unknown, "has 1073741824"},
		"a disk that grew":                      {osd.Contents{SizeBytes: 3 * gib, Headers: both()}, osd.Ready, ""},
		"a partition table":                     {osd.Contents{Headers: both(), Others: []osd.Mark{{Type: "dos", Offset: 510}}}, osd.Unknown, "dos"},
		"killed in the making, and a table":     {osd.Contents{Headers: both(undone), Others: []osd.Mark{{Type: "gpt", Offset: 512}}}, osd.Unknown, "gpt"},
		"another OSD":                           {osd.Contents{Headers: both(alien)}, osd.Other, other},
		"another OSD, torn":                     {osd.Contents{Headers: both(alien, torn)}, osd.Other, other},
		"another OSD's second header":           {osd.Contents{Headers: []osd.Header{sealed(0), sealed(second, alien, undone)}}, osd.Other, other},
		"another Ceph cluster":                  {osd.Contents{Headers: both(func(h *osd.Header) { h.FSID = other })}, osd.Other, other},
		"another OSD since, in the clear":       {osd.Contents{Headers: []osd.Header{sealed(second)}, Labels: []osd.Found{label(0, of(other))}}, osd.Other, other},
		"another OSD's copy, in the clear":      {osd.Contents{Headers: both(undone), Labels: []osd.Found{label(gib, of(other))}}, osd.Other, other},
		"the OSD's own label, in the clear":     {osd.Contents{Headers: both(), Labels: []osd.Found{label(gib)}}, osd.Unknown, "in the clear"},
		"the OSD in the clear":                  {osd.Contents{Labels: []osd.Found{label(0)}}, osd.Unknown, "without encryption"},
		"the OSD in the clear, unfinished":      {osd.Contents{Labels: []osd.Found{label(0, unready)}}, osd.Unknown, "without encryption"},
		"a clean disk":                          {osd.Contents{Clean: true}, osd.Empty, ""},
		"a header of others":                    {osd.Contents{Others: []osd.Mark{{Type: "crypto_LUKS"}}}, osd.Other, ""},
		"ours over others' second header":       {osd.Contents{Headers: []osd.Header{sealed(0)}, Others: []osd.Mark{{Type: "crypto_LUKS", Offset: 32 << 10}}}, osd.Unknown, "crypto_LUKS"},
		"a label of nobody beside an encrypted": {osd.Contents{Headers: both(), Labels: []osd.Found{label(0, of(""), damaged)}}, osd.Unknown, "in the clear"},
	} {
		if tt.contents.SizeBytes == 0 {
			tt.contents.SizeBytes = 2 * gib
		}
		want := wanted
		want.Encrypted = true
		got := osd.Judge(want, tt.contents)
		if got.Kind != tt.want || !strings.Contains(got.Message, tt.says) || got.Message == "" {
			t.Errorf("%s: %s, %q; want %s", name, got.Kind, got.Message, tt.want)
		}
		if got := osd.Judge(wanted, tt.contents); len(tt.contents.Headers) > 0 && got.Kind != osd.Unknown && got.Kind != osd.Other {
			t.Errorf("%s, to a Cluster that wants it in the clear: %s", name, got.Kind)
		}
	}
}

// TestJudge_sealedNeverGivesDataUp: whatever the headers are, only a disk without any is empty, and only one is unfinished whose headers all are the wanted OSD's, none altered, and either one
// is whole and has no token, or the first one is alone, and cut.
func TestJudge_sealedNeverGivesDataUp(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	changes := []func(*osd.Header){
		undone, undone, torn, torn, cut, altered, func(h *osd.Header) { h.UUID = other }, func(h *osd.Header) { h.FSID = other },
		func(h *osd.Header) { h.SizeBytes = 9 * gib }, func(h *osd.Header) { h.Sequence = r.Uint64() },
	}
	want := wanted
	want.Encrypted = true
	seen := map[osd.Kind]int{}
	for range 20000 {
		c := randomSealed(r, changes)
		got := osd.Judge(want, c)
		seen[got.Kind]++
		if givesUp(got.Kind, c.Headers) {
			t.Fatalf("%s: %+v", got.Kind, c)
		}
	}
	for k := osd.Unknown; k <= osd.Other; k++ {
		if seen[k] == 0 {
			t.Errorf("never %s: %v", k, seen)
		}
	}
}

// givesUp reports whether the kind of a disk with these headers is one that may cost data.
func givesUp(kind osd.Kind, headers []osd.Header) bool {
	whole := slices.ContainsFunc(headers, func(h osd.Header) bool { return h.Err == nil })
	if kind == osd.Unfinished && !whole && (len(headers) > 1 || !errors.Is(headers[0].Err, osd.ErrCut)) {
		return true
	}
	return slices.ContainsFunc(headers, func(h osd.Header) bool {
		foreign := h.UUID != uuid || h.FSID != fsid || errors.Is(h.Err, osd.ErrAltered)
		return kind == osd.Empty || kind == osd.Unfinished && (foreign || h.Ready && h.Err == nil) || kind == osd.Ready && foreign
	})
}

func randomSealed(r *rand.Rand, changes []func(*osd.Header)) osd.Contents {
	c := osd.Contents{SizeBytes: 2 * gib, Clean: r.IntN(2) == 0}
	for _, off := range []int64{0, osd.HeaderBytes} {
		h := sealed(off)
		for range r.IntN(3) {
			changes[r.IntN(len(changes))](&h)
		}
		if r.IntN(4) > 0 {
			c.Headers = append(c.Headers, h)
		}
	}
	if r.IntN(6) == 0 {
		c.Others = []osd.Mark{{Type: "gpt", Offset: []int64{512, 1 << 30}[r.IntN(2)]}}
	}
	return c
}
