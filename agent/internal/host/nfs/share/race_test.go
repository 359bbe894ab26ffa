package share

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// TestRemove_replacedMeanwhile puts something else in the place of a directory after the last look at it, before it is renamed. What was
// renamed by mistake goes back, and the volume's own directory stays where somebody put it.
func TestRemove_replacedMeanwhile(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"a link":      func(path string) error { return os.Symlink("../../outside", path) },
		"a file":      func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive} {
			for _, plain := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/plain rename %t", name, policy, plain), func(t *testing.T) {
					s := newSite(t)
					target := s.prepare()
					_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "team/data", OnDelete: policy})
					must(t, err)
					write(t, s.path("team/data/precious"), "x")
					swapped := false
					agent := s.agent(Config{Hook: func(effect string, done bool) error {
						if strings.HasPrefix(effect, "move") && !done && !swapped {
							swapped = true
							return errors.Join(os.Rename(s.path("team/data"), s.path("team/aside")), put(s.path("team/data")))
						}
						return nil
					}})
					agent.plain = plain
					_, err = agent.Remove(target, "pvc-1", "", "", far)
					wantError(t, err, sharedvolume.ErrState, "replaced")
					if _, err := os.Lstat(s.path("team/data")); err != nil {
						t.Errorf("what replaced it: %v", err)
					}
					if content, err := os.ReadFile(s.path("team/aside/precious")); err != nil || string(content) != "x" {
						t.Errorf("%q, %v", content, err)
					}
					entries, err := os.ReadDir(s.path(".quarry/removing"))
					if err != nil || len(entries) != 0 {
						t.Errorf("left %v, %v", entries, err)
					}
				})
			}
		}
	}
}

func TestEntry(t *testing.T) {
	dir := t.TempDir()
	for i := range 3000 {
		must(t, os.Mkdir(fmt.Sprintf("%s/a-rather-long-name-%d", dir, i), 0o755))
	}
	must(t, os.Symlink("a-rather-long-name-1", dir+"/link"))
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	d := none
	d.fd = fd
	defer d.close()
	for _, i := range []int{0, 1, 1500, 2999} {
		name := fmt.Sprintf("a-rather-long-name-%d", i)
		st, err := d.lstat(name)
		must(t, err)
		got, err := d.entry(name)
		if err != nil || got != st.Ino {
			t.Errorf("%s: %d, %v, want %d", name, got, err, st.Ino)
		}
	}
	if _, err := d.entry("link"); !isOther(err) {
		t.Errorf("a link: %v", err)
	}
	if _, err := d.entry("nothing"); !isMissing(err) {
		t.Errorf("nothing: %v", err)
	}
	for _, damaged := range [][]byte{nil, make([]byte, 18), make([]byte, 24), append(make([]byte, 16), 255, 255, 4, 'a', 0, 0, 0, 0)} {
		if _, _, name, size := listing(damaged); size != 0 || name != "" {
			t.Errorf("%v: %q, %d", damaged, name, size)
		}
	}
}

// TestRemove_overMeanwhile lets another agent come to the end of a removal while one still is at it. The volume stays forgotten.
func TestRemove_overMeanwhile(t *testing.T) {
	for _, effect := range []string{"unlink a", "move " + owner + ".pvc-1"} {
		s := newSite(t)
		target := s.prepare()
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
		must(t, err)
		for _, name := range []string{"a", "b", "c"} {
			write(t, s.path("data/"+name), "x")
		}
		over := false
		slow := s.agent(Config{Hook: func(what string, done bool) error {
			if what == effect && done && !over {
				over = true
				must(t, removeOne(s.Share, target, "pvc-1"))
			}
			return nil
		}, Now: func() time.Time {
			if over {
				return far
			}
			return start
		}})
		_, _ = slow.Remove(target, "pvc-1", "", "", far) // It may fail, for the ground went from under it.
		if list, _, err := s.List(target, "", 10, time.Time{}); err != nil || len(list) != 0 || !over {
			t.Errorf("%s: the volume is back: %+v, %v", effect, list, err)
		}
	}
}

// TestEnsure_madeMeanwhile lets another agent make a volume while one is about to make its directory anew. The volume stays made, even if
// the slow agent dies.
func TestEnsure_madeMeanwhile(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	die := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "link pvc-1.json" && done {
			return errKilled
		}
		return nil
	}})
	_, err := die.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	wantError(t, err, errKilled)
	must(t, os.Remove(s.path(".quarry/making/"+owner+".pvc-1")))
	made := false
	slow := s.agent(Config{Hook: func(what string, done bool) error {
		switch {
		case strings.HasPrefix(what, "chmod") && done && !made:
			made = true
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
			must(t, err)
		case made && what == "rename pvc-1.json" && done:
			return errKilled
		}
		return nil
	}})
	_, _ = slow.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete}) // It dies, or finds the volume made.
	must(t, s.finds(target, "pvc-1", "data"))
}

// TestEnsure_beingRemovedMeanwhile lets another agent make a volume and begin to remove it while one is about to make its directory anew. Nothing
// comes to the place.
func TestEnsure_beingRemovedMeanwhile(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	die := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "link pvc-1.json" && done {
			return errKilled
		}
		return nil
	}})
	_, err := die.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	wantError(t, err, errKilled)
	must(t, os.Remove(s.path(".quarry/making/"+owner+".pvc-1")))
	begun := false
	slow := s.agent(Config{Hook: func(what string, done bool) error {
		if strings.HasPrefix(what, "chmod") && done && !begun {
			begun = true
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
			must(t, err)
			write(t, s.path("data/file"), "x")
			r, err := s.Remove(target, "pvc-1", "", "", start)
			if err != nil || r.Done {
				t.Errorf("%+v, %v", r, err)
			}
		}
		return nil
	}})
	_, err = slow.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	wantError(t, err, sharedvolume.ErrState, "being removed")
	if _, err := os.Stat(s.path("data")); !begun || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something came to the place: %v", err)
	}
	must(t, removeOne(s.Share, target, "pvc-1"))
	s.gone(target, "pvc-1")
}

// TestEnsure_unreadablePlace makes a volume whose place cannot be read at this moment. What is there is not taken for gone: the record of the
// directory stays, and the next call finds it.
func TestEnsure_unreadablePlace(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	die := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "move data" && done {
			return errKilled
		}
		return nil
	}})
	_, err := die.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	wantError(t, err, errKilled)
	before := tree(t, s.dir)
	o, err := s.open(target)
	must(t, err)
	defer o.close()
	r, _, err := o.load("pvc-1")
	must(t, err)
	unreadable := *s.Share
	unreadable.root = none
	o.Share = &unreadable
	_, err = o.fetch(r)
	wantError(t, err, unix.EBADF)
	if after := tree(t, s.dir); after != before {
		t.Errorf("changed:\n%s\nwant:\n%s", after, before)
	}
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	must(t, s.finds(target, "pvc-1", "data"))
}

// TestEnsure_removedMeanwhile lets another agent make a volume and retain its directory while one still makes it. The volume stays forgotten,
// and the directory stays where it is.
func TestEnsure_removedMeanwhile(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	over := false
	slow := s.agent(Config{Hook: func(what string, done bool) error {
		if strings.HasPrefix(what, "move data") && done && !over {
			over = true
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Retain})
			must(t, err)
			write(t, s.path("data/file"), "precious")
			must(t, removeOne(s.Share, target, "pvc-1"))
		}
		return nil
	}})
	_, err := slow.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Retain})
	wantError(t, err, sharedvolume.ErrState, "removed meanwhile")
	if !over {
		t.Fatal("nothing happened meanwhile")
	}
	s.gone(target, "pvc-1")
	s.holds("data/file", "precious")
}

// TestRemove_placeTakenMeanwhile lets another volume take a place while one gives it up. The place stays the other one's, even if its directory
// is away.
func TestRemove_placeTakenMeanwhile(t *testing.T) {
	for at := 1; ; at++ {
		s := newSite(t)
		target := s.prepare()
		s.volumes(target, sharedvolume.Delete, "a")
		taken := false
		k := &killer{at: at}
		slow := s.agent(Config{Hook: func(effect string, done bool) error {
			if k.hook(effect, done) != nil && !taken {
				_, err := s.Ensure(target, sharedvolume.Wish{Name: "b", Directory: "team/a", OnDelete: sharedvolume.Delete})
				taken = err == nil
			}
			return nil
		}})
		must(t, removeOne(slow, target, "a"))
		if k.seen < at {
			break
		}
		if !taken {
			continue
		}
		s.holds(".quarry/places/team/a/.volume", owner+"/b\n")
		must(t, os.Rename(s.path("team/a"), s.path("aside")))
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "c", Directory: "team/a", OnDelete: sharedvolume.Delete})
		wantError(t, err, sharedvolume.ErrTaken, owner+"/b")
	}
}

// TestEnsure_entersItself makes a volume once more whose entries are gone. They are there again.
func TestEnsure_entersItself(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a")
	want := tree(t, s.dir)
	must(t, errors.Join(os.RemoveAll(s.path(".quarry/places/team")), os.Remove(s.path(fmt.Sprintf(".quarry/index/%d", s.inode("team/a"))))))
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
	must(t, err)
	if got := tree(t, s.dir); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
}

// diesAt dies at the rename of an archive: before it, or right after it.
func diesAt(after bool) func(string, bool) error {
	return func(effect string, done bool) error {
		if strings.HasPrefix(effect, "move archived") && done == after {
			return errKilled
		}
		return nil
	}
}

// TestArchive_twoAgents lets another agent archive a volume while one does, at every change and at a later second, and kills both at their
// renames. The next call tells where the directory is.
func TestArchive_twoAgents(t *testing.T) {
	for _, renames := range []bool{false, true} {
		for at := 1; ; at++ {
			s := newSite(t)
			target := s.prepare()
			s.volumes(target, sharedvolume.Archive, "a")
			met := false
			k := &killer{at: at}
			slow := s.agent(Config{Hook: func(effect string, done bool) error {
				if k.hook(effect, done) != nil && !met {
					met = true
					second := Config{Now: func() time.Time { return start.Add(2 * time.Second) }, Hook: diesAt(renames)}
					_ = removeOne(s.agent(second), target, "a") // It dies, or is refused.
				}
				return diesAt(true)(effect, done)
			}})
			_ = removeOne(slow, target, "a") // As above.
			if !met {
				break
			}
			r, err := s.Remove(target, "a", "", "", far)
			if err != nil || !r.Done || r.Note != "" || r.ArchivedAs == "" {
				t.Errorf("at %d, the other renames %t: %+v, %v", at, renames, r, err)
				continue
			}
			s.holds(r.ArchivedAs+"/file", "a")
		}
	}
}

// TestArchive_overMeanwhile lets another agent come to the end of an archive right after one has renamed the directory. It stays archived.
func TestArchive_overMeanwhile(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Archive, "a")
	over := false
	slow := s.agent(Config{Hook: func(effect string, done bool) error {
		if strings.HasPrefix(effect, "move archived") && done && !over {
			over = true
			must(t, removeOne(s.Share, target, "a"))
		}
		return nil
	}})
	r, err := slow.Remove(target, "a", "", "", far)
	if err != nil || !r.Done || !over {
		t.Errorf("%+v, %v", r, err)
	}
	s.holds("team/archived-a-20261121T190900Z/file", "a")
}

// TestEnsure_givenUpMeanwhile lets another agent make a volume while one gives it up, for its place was taken. The volume stays, with its place
// and its entry in the index.
func TestEnsure_givenUpMeanwhile(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	die := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "link a.json" && done {
			return errKilled
		}
		return nil
	}})
	_, err := die.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
	wantError(t, err, errKilled)
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "b", Directory: "team/a/inside", OnDelete: sharedvolume.Delete})
	must(t, err)
	made := false
	slow := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "rmdir "+owner+".a" && !done && !made {
			made = true
			must(t, removeOne(s.Share, target, "b"))
			must(t, os.RemoveAll(s.path("team")))
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
			must(t, err)
		}
		return nil
	}})
	_, err = slow.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
	if err == nil || !made {
		t.Errorf("made %t, %v", made, err)
	}
	must(t, s.finds(target, "a", "team/a"))
	must(t, os.Rename(s.path("team/a"), s.path("team/aside")))
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "c", Directory: "team/a", OnDelete: sharedvolume.Delete})
	wantError(t, err, sharedvolume.ErrTaken, owner+"/a")
	must(t, os.Rename(s.path("team/aside"), s.path("team/a")))
	must(t, removeOne(s.Share, target, "a"))
}

// TestRemove_readyMeanwhile lets another agent make a volume ready while one removes what was made of it. The volume is either ready with its
// directory or being removed.
func TestRemove_readyMeanwhile(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	die := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "move a" && done {
			return errKilled
		}
		return nil
	}})
	_, err := die.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
	wantError(t, err, errKilled)
	asked := false
	slow := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "rmdir a" && !done && !asked {
			asked = true
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
			wantError(t, err, sharedvolume.ErrState, "being removed")
		}
		return nil
	}})
	must(t, removeOne(slow, target, "a"))
	if !asked {
		t.Error("nothing happened meanwhile")
	}
	s.gone(target, "a")
}

// TestRemove_filledBeforeItWasReady puts a file into a directory that came to its place and was never handed out. No attempt removes it, and
// the removal ends once a person took the file away.
func TestRemove_filledBeforeItWasReady(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	die := s.agent(Config{Hook: func(what string, done bool) error {
		if what == "move a" && done {
			return errKilled
		}
		return nil
	}})
	_, err := die.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Retain})
	wantError(t, err, errKilled)
	must(t, os.WriteFile(s.path("team/a/file"), []byte("a person's"), 0o600))
	for range 3 {
		if err := removeOne(s.Share, target, "a"); err == nil {
			t.Error("the removal is over, and the directory is not empty")
		}
		if _, err := os.Stat(s.path("team/a/file")); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.Remove(s.path("team/a/file")))
	must(t, removeOne(s.Share, target, "a"))
	s.gone(target, "a")
}

// TestRemove_madeAnewMeanwhile lets another agent remove a volume and make it anew while one still removes it. The new record stays.
func TestRemove_madeAnewMeanwhile(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	again := false
	slow := s.agent(Config{Hook: func(what string, done bool) error {
		if again || what != "rmdir "+owner+".pvc-1" || !done {
			return nil
		}
		again = true
		must(t, removeOne(s.Share, target, "pvc-1"))
		// Something takes the number of the directory that is gone.
		must(t, os.Mkdir(s.path("number"), 0o755))
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
		must(t, err)
		return nil
	}})
	wantError(t, removeOne(slow, target, "pvc-1"), sharedvolume.ErrBusy, "anew")
	if !again {
		t.Fatal("nothing happened meanwhile")
	}
	must(t, s.finds(target, "pvc-1", "data"))
}

// TestPrepare_withoutHardLinks prepares a share from two agents at once, on a server where the later identity replaces the earlier one. Both
// return the one that stays, once they look again.
func TestPrepare_withoutHardLinks(t *testing.T) {
	s := newSite(t)
	linkless := func(effect string, done bool) error {
		if strings.HasPrefix(effect, "link") && !done {
			return unix.EPERM
		}
		return nil
	}
	var seen []string
	met := false
	first := s.agent(Config{Hook: linkless})
	second := s.agent(Config{Hook: func(effect string, done bool) error {
		if effect == "link "+idFile && !done && !met {
			met = true
			id, err := first.Prepare(Target{Owner: owner})
			wantReason(t, err, sharedvolume.ReasonNotPrepared)
			seen = append(seen, id)
			// It looked for the name before the first one came.
			must(t, os.Rename(s.path(".quarry/"+idFile), s.path("earlier")))
		}
		return linkless(effect, done)
	}})
	id, err := second.Prepare(Target{Owner: other})
	wantReason(t, err, sharedvolume.ReasonNotPrepared)
	must(t, os.Remove(s.path("earlier")))
	if seen = append(seen, id); !met || seen[0] != "" || seen[1] != "" {
		t.Fatalf("identities %q", seen)
	}
	one, err := first.Prepare(Target{Owner: owner})
	must(t, err)
	two, err := second.Prepare(Target{Owner: other})
	must(t, err)
	if one != two || one == "" {
		t.Errorf("identities %q and %q", one, two)
	}
}
