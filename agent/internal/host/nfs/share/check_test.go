package share

import (
	"os"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// problems lists all volumes with a look for their directories, and returns what is wrong by the names of volumes.
func (s *site) problems(target Target) map[string]string {
	s.t.Helper()
	list, next, err := s.List(target, "", 100, far)
	must(s.t, err)
	if next != "" {
		s.t.Errorf("the page ends before %s", next)
	}
	out := map[string]string{}
	for _, d := range list {
		out[d.Name] = d.Problem
	}
	return out
}

// TestList_check: what is wrong with one volume is said of that one, whatever it is.
func TestList_check(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "damaged", "fine", "gone", "link", "other")
	must(t, os.WriteFile(s.record("damaged"), []byte("{"), 0o600))
	must(t, os.Rename(s.path("team/gone"), s.path("aside")))
	must(t, os.Rename(s.path("team/link"), s.path("aside-too")))
	must(t, os.Symlink("fine", s.path("team/link")))
	must(t, os.Rename(s.path("team/other"), s.path("aside-as-well")))
	must(t, os.Mkdir(s.path("team/other"), 0o755))
	must(t, os.WriteFile(s.path(".quarry/volumes/"+owner+"/stray"), nil, 0o600))
	got := s.problems(target)
	for name, want := range map[string]string{"damaged": "damaged", "fine": "", "gone": "gone from the share", "link": "gone from the share", "other": "not the one that was made"} {
		if problem, listed := got[name]; !listed || (problem == "") != (want == "") || !strings.Contains(problem, want) {
			t.Errorf("%s: %q, want %q", name, problem, want)
		}
	}
	if len(got) != 5 {
		t.Errorf("listed %v", got)
	}
	// Who does not look is not told of volumes on less than all records.
	if _, _, err := s.List(target, "", 100, time.Time{}); err == nil {
		t.Error("a stray file was passed over")
	}
}

// TestList_checkEnds: a page ends in time, and has one record at least.
func TestList_checkEnds(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a", "b", "c")
	for i, after := range []string{"", "a", "b"} {
		list, next, err := s.List(target, after, 100, start.Add(-time.Second))
		must(t, err)
		if len(list) != 1 || list[0].Name != string("abc"[i]) || (next == "") != (i == 2) {
			t.Errorf("behind %q: %+v, %q", after, list, next)
		}
	}
}

// TestList_checkOfACopy: volumes whose directories did not come along cost no open file.
func TestList_checkOfACopy(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a", "b", "c", "d")
	moved := s.copied()
	for _, name := range []string{"b", "c", "d"} {
		must(t, os.RemoveAll(moved.path("team/"+name)))
	}
	_, err := moved.Prepare(target)
	must(t, err)
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(entries)
	}
	before := open()
	got := moved.problems(target)
	if got["a"] != "" || got["b"] == "" || got["d"] == "" {
		t.Errorf("%v", got)
	}
	if after := open(); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
	// While the records are to be compared once more, those that are of this share are as they were.
	must(t, os.Remove(moved.path(".quarry/compared.json")))
	if got := moved.problems(target); got["a"] != "" || !strings.Contains(got["b"], "copied") {
		t.Errorf("%v", got)
	}
}

// TestRemove_unrecordedBesideOthers: a place that other volumes have, around it or inside, is not that of a volume without a record.
func TestRemove_unrecordedBesideOthers(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a")
	for _, directory := range []string{"team", "team/a", "team/a/inside", "nothing", "nothing/inside"} {
		r, err := s.Remove(target, "x", directory, "", far)
		if err != nil || !r.Done {
			t.Errorf("%s: %+v, %v", directory, r, err)
		}
	}
	must(t, os.Mkdir(s.path("team/x"), 0o755))
	must(t, os.WriteFile(s.path("file"), nil, 0o600))
	for _, directory := range []string{"team/x", "file"} {
		_, err := s.Remove(target, "x", directory, "", far)
		wantError(t, err, sharedvolume.ErrState, directory)
	}
	// In a copy nobody knows whose a directory is before the records are compared.
	moved := s.copied()
	must(t, os.Remove(moved.path(".quarry/compared.json")))
	r, err := moved.Remove(target, "x", "team/a", "", far)
	if err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Stat(moved.path("team/a")); err != nil {
		t.Error(err)
	}
}
