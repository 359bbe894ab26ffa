package lvm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
)

// TestPrune: what is old of a group that was removed goes; nothing of a group that may come back, and nothing that LVM did not write.
func TestPrune(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	if err := prune(dir, now); err != nil {
		t.Errorf("before LVM ever ran: %v", err)
	}
	for name, age := range map[string]time.Duration{
		"archive/gone_00001-123.vg":     keepArchives + time.Hour,
		"archive/gone_00002-9.vg":       keepArchives - time.Hour,
		"archive/there_00001-5.vg":      keepArchives + time.Hour,
		"archive/two_parts_00000-77.vg": keepArchives + time.Hour,
		"archive/notes.txt":             keepArchives + time.Hour,
		"backup/there":                  0,
		"backup/gone_00003":             0,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(dir, now); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "archive"))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"gone_00002-9.vg", "notes.txt", "there_00001-5.vg"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

// TestTellEarlier: LVM shows a group as those of its disks know it that are there. A state of before is told as one, also by an agent that started anew, but not
// where all disks are there: then somebody put it back.
func TestTellEarlier(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lvm")
	fresh := func() *LVM {
		l, err := New(Config{Runner: run.NewFake(), Dir: dir})
		must(t, err)
		return l
	}
	const uuid = "the-group"
	told := func(l *LVM, change int64, missing bool) string {
		noted, err := l.newest.Known()
		vgs := []VG{{Name: "vg", UUID: uuid, Tags: []string{tag}, Change: change}}
		l.tellEarlier(vgs, []PV{{UUID: uuidA, VGUUID: uuid}, {UUID: uuidB, VGUUID: uuid, Missing: missing}, {UUID: uuidC, VGUUID: "another", Missing: true}}, noted, err)
		return vgs[0].Earlier
	}
	for _, c := range []struct {
		what    string
		change  int64
		missing bool
		want    string
	}{
		{"it is seen", 5, false, ""},
		{"a disk is away", 5, true, ""},
		{"it is changed without that disk", 7, true, ""},
		{"the disk is back, and the others are away", 5, true, "as of its change 5, and this node saw its change 7"},
		{"again", 6, true, "as of its change 6, and this node saw its change 7"},
		{"all disks are back", 7, false, ""},
		{"metadata of before was restored", 6, false, ""},
		{"and a disk is away", 6, true, ""},
	} {
		if got := told(fresh(), c.change, c.missing); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", c.what, got)
		}
	}

	l := fresh()
	must(t, os.WriteFile(l.newest.File(uuid), []byte("?"), 0o600))
	if got := told(l, 9, true); !strings.Contains(got, "not known") {
		t.Errorf("what is noted cannot be read, and a disk is away: %q", got)
	}
	if got := told(l, 9, false); got != "" {
		t.Errorf("what is noted cannot be read, and all disks are there: %q", got)
	}
	must(t, os.Remove(l.newest.File(uuid)))
	if got := told(l, 4, true); got != "" {
		t.Errorf("a person removed what was noted: %q", got)
	}

	// Nothing can be written in its place.
	must(t, os.Mkdir(l.newest.File(uuid)+".new", 0o700))
	if got := told(l, 5, false); !strings.Contains(got, "cannot be noted") {
		t.Errorf("it has forgotten a device, and that is not noted: %q", got)
	}
	must(t, os.Remove(l.newest.File(uuid)+".new"))
	if got := told(l, 5, false); got != "" {
		t.Errorf("it is noted now: %q", got)
	}
	must(t, os.Mkdir(l.newest.File(uuid)+".new", 0o700))
	if got := told(l, 6, false); got != "" {
		t.Errorf("it never lacked a device since: %q", got)
	}
	if got := told(l, 6, true); !strings.Contains(got, "not known") {
		t.Errorf("a disk is away, and nothing can be noted: %q", got)
	}
}

// TestForget_group: a disk that was away when a group was removed may still tell of the group later, and is not the older half of anything. Another group of the same name
// keeps its guard.
func TestForget_group(t *testing.T) {
	l, err := New(Config{Runner: run.NewFake(run.Step{}), Dir: filepath.Join(t.TempDir(), "lvm")})
	must(t, err)
	vgs := []VG{{Name: "vg", UUID: "uuid-vg", Tags: []string{tag}, Change: 5}, {Name: "vg", UUID: "uuid-other", Tags: []string{tag}, Change: 5}, {Name: "foreign", UUID: "uuid-foreign", Change: 5}}
	l.tellEarlier(vgs, nil, nil, nil)
	must(t, l.Forget("uuid-vg"), l.Forget("uuid-vg"))
	if known, err := l.newest.Known(); err != nil || len(known) != 1 || known["uuid-other"].Name != "vg" {
		t.Errorf("still noted: %v, %v", known, err)
	}
	if l.Forget("") == nil || l.Forget("../newest") == nil {
		t.Error("what is no UUID is forgotten")
	}
}
