package share

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// inherits leaves the share as it is after another agent removed volume a to its end and made volume b at the same place, if the file system
// gives b the inode that became free. Many do at once, the file system of the tests may not.
func (s *site) inherits() {
	s.t.Helper()
	s.rewrite("a", "b", map[string]any{"onDelete": "retain", "state": "made", "doing": "", "archive": "", "moved": false})
	must(s.t, os.Remove(s.record("a")))
	for _, entry := range s.entriesOfB() {
		write(s.t, s.path("draft"), owner+"/b\n")
		must(s.t, os.MkdirAll(filepath.Dir(s.path(entry)), 0o700))
		must(s.t, os.Rename(s.path("draft"), s.path(entry)))
	}
	write(s.t, s.path("team/a/file"), "precious")
}

// entriesOfB are the files that say nothing but the name of volume b.
func (s *site) entriesOfB() []string {
	return []string{fmt.Sprintf(".quarry/index/%d", s.inode("team/a")), ".quarry/places/team/a/.volume"}
}

// heir lets b inherit before or after the change of a number. It reports whether b did.
type heir struct {
	*site
	killer
	done bool
}

func (h *heir) hook(effect string, done bool) error {
	if h.killer.hook(effect, done) == nil || h.done {
		return nil
	}
	_, recordErr := os.Stat(h.record("a"))
	_, directoryErr := os.Stat(h.path("team/a"))
	if recordErr == nil && directoryErr == nil {
		h.done = true
		h.inherits()
	}
	return nil
}

// keepsB expects volume b with its data, whatever is done about volume a.
func (s *site) keepsB(target Target) {
	s.t.Helper()
	s.holds("team/a/file", "precious")
	for _, entry := range s.entriesOfB() {
		s.holds(entry, owner+"/b\n")
	}
	if err := removeOne(s.Share, target, "a"); err != nil {
		s.t.Errorf("volume a is not gone: %v", err)
	}
	s.holds("team/a/file", "precious")
	must(s.t, s.finds(target, "b", "team/a"))
	if err := s.finds(target, "a", "team/a"); err == nil {
		s.t.Error("volume a has the directory of b")
	}
}

// TestRemove_inodeOfAnother lets another volume get place and inode of a volume at every change of a slow removal, at the first call and at a
// later one.
func TestRemove_inodeOfAnother(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive, sharedvolume.Retain} {
		for _, begun := range []bool{false, true} {
			for _, after := range []bool{false, true} {
				for at := 1; ; at++ {
					s := newSite(t)
					target := s.prepare()
					s.volumes(target, policy, "a")
					if begun {
						s.begun(target)
					}
					h := &heir{site: s, killer: killer{at: at, after: after}}
					r, err := s.agent(Config{Hook: h.hook}).Remove(target, "a", "", "", far)
					if !h.done {
						if at == 1 && !begun {
							t.Errorf("%s, begun %t, after %t: nobody inherits", policy, begun, after)
						}
						break
					}
					if err == nil && r.ArchivedAs != "" {
						t.Errorf("%s, begun %t: archived as %s", policy, begun, r.ArchivedAs)
					}
					s.keepsB(target)
				}
			}
		}
	}
}

// begun lets the removal of volume a be on record, and nothing of it be done.
func (s *site) begun(target Target) {
	s.t.Helper()
	k := s.agent(Config{Hook: func(effect string, done bool) error {
		if effect == "rename a.json" && done {
			return errKilled
		}
		return nil
	}})
	if err := removeOne(k, target, "a"); err != nil && !errors.Is(err, errKilled) {
		s.t.Fatal(err)
	}
}

// TestEnsure_inodeOfAnother lets another volume get place and inode of a volume at every change of a call that still makes it. The volume stays
// forgotten.
func TestEnsure_inodeOfAnother(t *testing.T) {
	inherited := 0
	for _, after := range []bool{false, true} {
		for at := 1; at < 100; at++ {
			s := newSite(t)
			target := s.prepare()
			h := &heir{site: s, killer: killer{at: at, after: after}}
			_, err := s.agent(Config{Hook: h.hook}).Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
			if !h.done {
				continue
			}
			inherited++
			if err == nil {
				t.Errorf("at %d, after %t: volume a is made", at, after)
			}
			if _, err := os.Stat(s.record("a")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("at %d, after %t: the record of volume a is back: %v", at, after, err)
			}
			s.keepsB(target)
		}
	}
	if inherited == 0 {
		t.Error("nobody inherits")
	}
}

// TestRemove_recordOfAnotherTime removes a volume whose record was written once more after its directory had become another's.
func TestRemove_recordOfAnotherTime(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a")
	record, err := os.ReadFile(s.record("a"))
	must(t, err)
	s.inherits()
	must(t, os.WriteFile(s.record("a"), record, 0o600))
	wantError(t, s.finds(target, "a", "team/a"), sharedvolume.ErrState, owner+"/b")
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
	wantError(t, err, sharedvolume.ErrState, owner+"/b")
	s.keepsB(target)
}

// TestRemove_withoutIndex leaves a directory alone whose inode the index gives to nobody.
func TestRemove_withoutIndex(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive} {
		s := newSite(t)
		target := s.prepare()
		s.volumes(target, policy, "a")
		entry := s.path(fmt.Sprintf(".quarry/index/%d", s.inode("team/a")))
		must(t, os.Remove(entry))
		before := tree(t, s.dir)
		wantError(t, removeOne(s.Share, target, "a"), sharedvolume.ErrState, "left alone", ".quarry/index/")
		if after := tree(t, s.dir); after != before {
			t.Errorf("changed:\n%s\nwant:\n%s", after, before)
		}
		write(t, entry, owner+"/a\n")
		must(t, removeOne(s.Share, target, "a"))
	}
}

// read makes volume pvc-1 with a file in its directory, opens the share, and reads the record of the volume, as an agent does that is about to remove
// it.
func (s *site) read() (Target, *owned, record) {
	s.t.Helper()
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(s.t, err)
	write(s.t, s.path("data/a"), "x")
	o, err := s.open(target)
	must(s.t, err)
	s.t.Cleanup(o.close)
	must(s.t, o.ready())
	r, _, err := o.load("pvc-1")
	must(s.t, err)
	return target, o, r
}

// TestRemove_hiddenAfterTheLook lets one agent read the record of a volume, and another one begin its removal, move the directory out of sight and
// be killed. The first agent finds the directory there. What it writes down is what the other one began.
func TestRemove_hiddenAfterTheLook(t *testing.T) {
	s := newSite(t)
	target, o, read := s.read()
	killed := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "move "+owner+".pvc-1" && done {
			return errKilled
		}
		return nil
	}})
	_, err := killed.Remove(target, "pvc-1", "", "", far)
	wantError(t, err, errKilled)
	var out sharedvolume.Removal
	must(t, o.delete(read, start, &out))
	if out.Done {
		t.Error("done without any time")
	}
	now, _, err := o.load("pvc-1")
	if err != nil || now.State != sharedvolume.Removing || now.Doing != sharedvolume.Delete || !now.Moved {
		t.Errorf("the record says %+v, %v", now, err)
	}
	must(t, removeOne(s.Share, target, "pvc-1"))
	s.gone(target, "pvc-1")
}

// TestRemove_archivedWhatIsHidden lets one agent begin to delete a volume, and another one to archive it at the same moment: the record says archive,
// and the directory is out of sight. Nothing of it is deleted, and it is not called gone.
func TestRemove_archivedWhatIsHidden(t *testing.T) {
	for _, doing := range []sharedvolume.Policy{sharedvolume.Archive, sharedvolume.Retain} {
		s := newSite(t)
		target, o, r := s.read()
		r.State, r.Doing = sharedvolume.Removing, sharedvolume.Delete
		must(t, o.save(r))
		trash, err := o.discard(r)
		must(t, err)
		trash.close()
		other := r
		other.Doing = doing
		if doing == sharedvolume.Archive {
			other.Archive = "archived-data"
		}
		must(t, o.save(other))
		var out sharedvolume.Removal
		wantError(t, o.delete(r, far, &out), sharedvolume.ErrBusy, "another agent changed")
		if doing == sharedvolume.Retain {
			other.State, other.Doing = sharedvolume.Made, ""
			must(t, o.save(other))
		}
		_, err = s.Remove(target, "pvc-1", "", doing, far)
		wantError(t, err, sharedvolume.ErrState, "move it back to \"data\"")
		must(t, os.Rename(s.path(".quarry/removing/"+owner+".pvc-1"), s.path("data")))
		_, err = s.Remove(target, "pvc-1", "", doing, far)
		must(t, err)
		kept := "data/a"
		if doing == sharedvolume.Archive {
			kept = "archived-data/a"
		}
		if _, err := os.Stat(s.path(kept)); err != nil {
			t.Errorf("%s: %v", doing, err)
		}
	}
}
