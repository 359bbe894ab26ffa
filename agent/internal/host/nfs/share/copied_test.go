package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// copied moves a share to another server, with its records: every directory has another inode there.
func (s *site) copied() *site {
	s.t.Helper()
	moved := newSite(s.t)
	must(s.t, os.Remove(moved.dir))
	if out, err := exec.Command("cp", "-a", s.dir, moved.dir).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	moved.Share = moved.agent(Config{})
	return moved
}

// earlier takes away what agents before the tree of places did not write.
func (s *site) earlier() {
	s.t.Helper()
	must(s.t, errors.Join(os.RemoveAll(s.path(".quarry/places")), os.Remove(s.path(".quarry/compared.json"))))
}

// rewrite changes the record of a volume behind everybody's back, or makes one of it for another volume.
func (s *site) rewrite(volume, as string, changes map[string]any) {
	s.t.Helper()
	content, err := os.ReadFile(s.record(volume))
	must(s.t, err)
	m := map[string]any{}
	must(s.t, json.Unmarshal(content, &m))
	m["volume"] = as
	for key, value := range changes {
		m[key] = value
	}
	content, err = json.Marshal(m)
	must(s.t, err)
	must(s.t, os.WriteFile(s.record(as), content, 0o600))
}

func (s *site) record(volume string) string {
	return s.path(".quarry/volumes/" + owner + "/" + volume + ".json")
}

// volumes makes volumes with a file each, below "team".
func (s *site) volumes(target Target, policy sharedvolume.Policy, names ...string) {
	s.t.Helper()
	for _, name := range names {
		_, err := s.Ensure(target, sharedvolume.Wish{Name: name, Directory: "team/" + name, OnDelete: policy})
		must(s.t, err)
		write(s.t, s.path("team/"+name+"/file"), name)
	}
}

func (s *site) finds(target Target, volume, directory string) error {
	f, err := s.Find(target, volume, directory)
	if err == nil {
		f.Close()
	}
	return err
}

func (s *site) holds(path, content string) {
	s.t.Helper()
	if got, err := os.ReadFile(s.path(path)); err != nil || string(got) != content {
		s.t.Errorf("%s holds %q, %v, want %q", path, got, err, content)
	}
}

func (s *site) inode(path string) uint64 {
	s.t.Helper()
	var st unix.Stat_t
	must(s.t, unix.Lstat(s.path(path), &st))
	return st.Ino
}

// compareOnceMore is what messages tell people to do.
func (s *site) compareOnceMore(target Target) {
	s.t.Helper()
	must(s.t, os.Remove(s.path(".quarry/compared.json")))
	_, err := s.Prepare(target)
	must(s.t, err)
}

// TestCopiedShare finds and removes in a copy what was made in the original, and nothing else.
func TestCopiedShare(t *testing.T) {
	first := newSite(t)
	target := first.prepare()
	for volume, policy := range map[string]sharedvolume.Policy{"a": "delete", "b": "archive", "c": "retain", "d": "delete"} {
		first.volumes(target, policy, volume)
	}
	r, err := first.Remove(target, "d", "", "", start)
	if err != nil || r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	s := first.copied()
	_, err = s.Identify(target)
	wantReason(t, err, sharedvolume.ReasonNotPrepared)
	wantReason(t, s.finds(target, "a", "team/a"), sharedvolume.ReasonNotPrepared)
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "e", Directory: "team/a/inside", OnDelete: sharedvolume.Delete})
	wantError(t, err, sharedvolume.ErrTaken)
	_, err = s.Prepare(target)
	must(t, err)
	_, err = s.Identify(target)
	must(t, err)
	for _, volume := range []string{"a", "b", "c"} {
		must(t, s.finds(target, volume, "team/"+volume))
	}
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
	must(t, err)
	// A directory that somebody renamed in the copy still is known by its new inode.
	must(t, os.Rename(s.path("team/b"), s.path("renamed")))
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "e", Directory: "renamed/inside", OnDelete: sharedvolume.Delete})
	wantError(t, err, sharedvolume.ErrTaken, owner+"/b")
	must(t, os.Rename(s.path("renamed"), s.path("team/b")))
	for _, volume := range []string{"a", "b", "c", "d"} {
		r, err := s.Remove(target, volume, "", "", far)
		if err != nil || !r.Done {
			t.Errorf("%s: %+v, %v", volume, r, err)
		}
	}
	entries, err := os.ReadDir(s.path("team"))
	if err != nil || len(entries) != 2 {
		t.Errorf("left %v, %v", entries, err)
	}
	for _, left := range []string{".quarry/places", ".quarry/removing", ".quarry/making", ".quarry/index"} {
		if entries, err := os.ReadDir(s.path(left)); err != nil || len(entries) != 0 {
			t.Errorf("left in %s: %v, %v", left, entries, err)
		}
	}
}

// TestCopiedShare_newVolumes makes volumes in a copy before any other call knows it: none comes into the directory of another one.
func TestCopiedShare_newVolumes(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		first := newSite(t)
		target := first.prepare()
		first.volumes(target, sharedvolume.Delete, "a")
		s := first.copied()
		if earlier {
			s.earlier()
		}
		for _, directory := range []string{"team/a/inside", "team/a/deep/inside", "team/a", "team"} {
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "new", Directory: directory, OnDelete: sharedvolume.Delete})
			wantError(t, err, sharedvolume.ErrTaken)
		}
		s.holds("team/a/file", "a")
		if entries, err := os.ReadDir(s.path("team/a")); err != nil || len(entries) != 1 {
			t.Errorf("earlier %t: %v, %v", earlier, entries, err)
		}
	}
}

// TestCopiedShare_removalWasOver copies a share at the moment when the directory of a volume is gone and its record is not, after another
// volume took the place: that one stays.
func TestCopiedShare_removalWasOver(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive} {
		t.Run(string(policy), func(t *testing.T) {
			first := newSite(t)
			target := first.prepare()
			first.volumes(target, policy, "a")
			killed := first.agent(Config{Hook: func(effect string, done bool) error {
				if effect == "unlink a.json" {
					return errKilled
				}
				return nil
			}})
			if _, err := killed.Remove(target, "a", "", "", far); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			_, err := first.Ensure(target, sharedvolume.Wish{Name: "b", Directory: "team/a", OnDelete: policy})
			must(t, err)
			write(t, first.path("team/a/file"), "b")
			s := first.copied()
			r, err := s.Remove(target, "a", "", "", far)
			if err != nil || !r.Done || (r.ArchivedAs != "") != (policy == sharedvolume.Archive) {
				t.Errorf("%+v, %v", r, err)
			}
			s.holds("team/a/file", "b")
			if r.ArchivedAs != "" {
				s.holds(r.ArchivedAs+"/file", "a")
			}
			must(t, s.finds(target, "b", "team/a"))
		})
	}
}

// TestCopiedShare_interrupted copies a share at every moment of a removal, and goes on in the copy.
func TestCopiedShare_interrupted(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive, sharedvolume.Retain} {
		for after := range 2 {
			for at := 1; ; at++ {
				first := newSite(t)
				target := first.prepare()
				first.volumes(target, policy, "a")
				k := &killer{at: at, after: after == 1}
				if err := removeOne(first.agent(Config{Hook: k.hook}), target, "a"); err == nil {
					break
				}
				s := first.copied()
				err := removeOne(s.Share, target, "a")
				kept := exec.Command("sh", "-c", "cat "+s.dir+"/team/*/file "+s.dir+"/.quarry/removing/*/file")
				out, _ := kept.Output() // It fails where there is nothing to read.
				switch {
				case errors.Is(err, sharedvolume.ErrState) && strings.Contains(err.Error(), "not known"):
					// Killed around the move: nobody can tell in a copy whether the directory was moved.
					if policy == sharedvolume.Retain || string(out) != "a" {
						t.Errorf("%s, killed at %d, after %d: %v, and %q is left", policy, at, after, err, out)
					}
				case err != nil:
					t.Errorf("%s, killed at %d, after %d: %v", policy, at, after, err)
				case (string(out) == "a") == (policy == sharedvolume.Delete):
					t.Errorf("%s, killed at %d, after %d: %q is left", policy, at, after, out)
				}
			}
		}
	}
}

func removeOne(s *Share, target Target, volume string) error {
	r, err := s.Remove(target, volume, "", "", far)
	if err == nil && !r.Done {
		err = errors.New("it is not done")
	}
	return err
}

// TestCopiedShare_twoRecordsOfOnePlace refuses both, until a person says which one is right.
func TestCopiedShare_twoRecordsOfOnePlace(t *testing.T) {
	for name, second := range map[string]string{"the same": "team/a", "one inside of the other": "team/a/inside"} {
		t.Run(name, func(t *testing.T) {
			first := newSite(t)
			target := first.prepare()
			first.volumes(target, sharedvolume.Delete, "a")
			must(t, os.MkdirAll(first.path("team/a/inside"), 0o755))
			first.rewrite("a", "b", map[string]any{"inode": "4711", "directory": second})
			first.earlier()
			s := first.copied()
			_, err := s.Prepare(target)
			must(t, err)
			wantError(t, s.finds(target, "b", second), sharedvolume.ErrState, "one place")
			for _, volume := range []string{"a", "b"} {
				wantError(t, removeOne(s.Share, target, volume), sharedvolume.ErrState)
			}
			if err := s.finds(target, "a", "team/a"); (err != nil) != (second == "team/a") {
				t.Errorf("the outer one: %v", err)
			}
			s.holds("team/a/file", "a")
			must(t, os.Rename(s.record("b"), s.path("b.json")))
			s.compareOnceMore(target)
			must(t, s.finds(target, "a", "team/a"))
			must(t, removeOne(s.Share, target, "a"))
			if _, err := os.Stat(s.path("team/a")); !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

// TestCopiedShare_unfinished restores the records before the directories: a place stays its volume's meanwhile. What is there later is the
// volume's once a person says so.
func TestCopiedShare_unfinished(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		first := newSite(t)
		target := first.prepare()
		first.volumes(target, sharedvolume.Delete, "a")
		s := first.copied()
		if earlier {
			s.earlier()
		}
		must(t, os.Rename(s.path("team"), s.above+"/outside/team"))
		_, err := s.Prepare(target)
		must(t, err)
		before := tree(t, s.dir)
		for _, directory := range []string{"team/a", "team/a/inside", "team"} {
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "new", Directory: directory, OnDelete: sharedvolume.Delete})
			wantError(t, err, sharedvolume.ErrTaken, owner+"/a")
		}
		wantError(t, s.finds(target, "a", "team/a"), sharedvolume.ErrState, "gone")
		_, err = s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
		wantError(t, err, sharedvolume.ErrState, "gone")
		if after := tree(t, s.dir); after != before {
			t.Errorf("changed:\n%s\nwant:\n%s", after, before)
		}
		must(t, os.Rename(s.above+"/outside/team", s.path("team")))
		wantError(t, s.finds(target, "a", "team/a"), sharedvolume.ErrState, "once more")
		_, err = s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
		wantError(t, err, sharedvolume.ErrState, "once more")
		wantError(t, removeOne(s.Share, target, "a"), sharedvolume.ErrState, "once more")
		s.compareOnceMore(target)
		must(t, s.finds(target, "a", "team/a"))
		_, err = s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
		must(t, err)
		s.holds("team/a/file", "a")
	}
}

// TestCopiedShare_numbersOfOthers gives a volume the number on record that the directory of another one has in the copy.
func TestCopiedShare_numbersOfOthers(t *testing.T) {
	first := newSite(t)
	target := first.prepare()
	first.volumes(target, sharedvolume.Delete, "a", "b")
	s := first.copied()
	inode := strconv.FormatUint(s.inode("team/b"), 10)
	s.rewrite("a", "a", map[string]any{"inode": inode})
	write(t, s.path(".quarry/index/"+inode), owner+"/a\n")
	// The directory of a is not restored yet, so that its record stays as it is.
	must(t, os.RemoveAll(s.path("team/a")))
	_, err := s.Prepare(target)
	must(t, err)
	must(t, removeOne(s.Share, target, "a"))
	s.holds("team/b/file", "b")
	must(t, os.Rename(s.path("team/b"), s.path("renamed")))
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "new", Directory: "renamed/inside", OnDelete: sharedvolume.Delete})
	wantError(t, err, sharedvolume.ErrTaken, owner+"/b")
}

// TestCopiedShare_damagedRecord compares the records of a copy of which one is damaged. Its volume is refused, and all others are used.
func TestCopiedShare_damagedRecord(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		first := newSite(t)
		target := first.prepare()
		first.volumes(target, sharedvolume.Delete, "a", "b", "c")
		s := first.copied()
		if earlier {
			s.earlier()
		}
		must(t, os.WriteFile(s.record("b"), []byte("x"), 0o600))
		_, err := s.Prepare(target)
		must(t, err)
		for _, volume := range []string{"a", "c"} {
			must(t, s.finds(target, volume, "team/"+volume))
			must(t, removeOne(s.Share, target, volume))
		}
		wantError(t, s.finds(target, "b", "team/b"), sharedvolume.ErrState, "damaged")
		wantError(t, removeOne(s.Share, target, "b"), sharedvolume.ErrState, "damaged")
		s.holds("team/b/file", "b")
		if content, err := os.ReadFile(s.path(".quarry/compared.json")); err != nil || !strings.Contains(string(content), owner+"/b") {
			t.Errorf("%s, %v", content, err)
		}
	}
}

// TestCopiedShare_killed kills the comparison of the records at every change that it makes.
func TestCopiedShare_killed(t *testing.T) {
	play := func(k *killer) string {
		first := newSite(t)
		target := first.prepare()
		first.volumes(target, sharedvolume.Delete, "a", "b")
		s := first.copied()
		s.earlier()
		_, err := s.agent(Config{Hook: k.hook}).Prepare(target)
		if k.at > 0 && !errors.Is(err, errKilled) {
			t.Fatalf("killed at %d: %v", k.at, err)
		}
		_, err = s.Prepare(target)
		must(t, err)
		return tree(t, s.dir)
	}
	whole := &killer{}
	want := play(whole)
	for at := 1; at <= whole.seen; at++ {
		for _, after := range []bool{false, true} {
			if got := play(&killer{at: at, after: after}); got != want {
				t.Errorf("killed at change %d of %d, after %t:\n%s\nwant:\n%s", at, whole.seen, after, got, want)
			}
		}
	}
}

// TestCopiedShare_inSlices compares many records with little time per call.
func TestCopiedShare_inSlices(t *testing.T) {
	first := newSite(t)
	target := first.prepare()
	second := Target{Owner: other}
	_, err := first.Prepare(second)
	must(t, err)
	const volumes = 20
	for i := range volumes {
		for _, who := range []Target{target, second} {
			_, err := first.Ensure(who, sharedvolume.Wish{Name: fmt.Sprintf("v%d", i), Directory: fmt.Sprintf("%s/v%d", who.Owner[30:], i), OnDelete: sharedvolume.Delete})
			must(t, err)
		}
	}
	s := first.copied()
	now := start
	agent := s.agent(Config{Now: func() time.Time { now = now.Add(time.Second); return now }})
	calls := 1
	for ; ; calls++ {
		_, err := agent.Prepare(target)
		if err == nil {
			break
		}
		wantReason(t, err, sharedvolume.ReasonNotPrepared)
		if calls == 1 {
			_, err := agent.Ensure(target, sharedvolume.Wish{Name: "v0", Directory: "v0", OnDelete: sharedvolume.Delete})
			wantError(t, err, sharedvolume.ErrBusy, "compared")
		}
		if calls > 2*volumes {
			t.Fatal("it makes no progress")
		}
	}
	if calls < 10 {
		t.Errorf("only %d calls", calls)
	}
	for i := range volumes {
		for _, who := range []Target{target, second} {
			must(t, s.finds(who, fmt.Sprintf("v%d", i), fmt.Sprintf("%s/v%d", who.Owner[30:], i)))
		}
	}
}

// TestEarlierShare goes on with a share that an earlier agent kept: pods start at once, and the places are entered by the first call that
// needs them.
func TestEarlierShare(t *testing.T) {
	for name, work := range map[string]call{
		"prepare": func(s *Share, target Target) error { _, err := s.Prepare(target); return err },
		"ensure": func(s *Share, target Target) error {
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Delete})
			return err
		},
	} {
		s := newSite(t)
		target := s.prepare()
		s.volumes(target, sharedvolume.Delete, "a", "b")
		want := tree(t, s.dir)
		s.earlier()
		must(t, s.finds(target, "a", "team/a"))
		_, err := s.Identify(target)
		must(t, err)
		must(t, work(s.Share, target))
		if got := tree(t, s.dir); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

// TestEnsure_placeOfAVanishedDirectory keeps others off a place whose directory somebody took away.
func TestEnsure_placeOfAVanishedDirectory(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a")
	must(t, os.RemoveAll(s.path("team")))
	for _, directory := range []string{"team/a", "team/a/inside", "team"} {
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "new", Directory: directory, OnDelete: sharedvolume.Delete})
		wantError(t, err, sharedvolume.ErrTaken, owner+"/a")
	}
	must(t, removeOne(s.Share, target, "a"))
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "new", Directory: "team", OnDelete: sharedvolume.Delete})
	must(t, err)
}
