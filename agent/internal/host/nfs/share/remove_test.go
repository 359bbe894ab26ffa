package share

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// TestRemove_touchesOnlyWhatWasMade puts other things in the place of a volume's directory: nothing of them is changed.
func TestRemove_touchesOnlyWhatWasMade(t *testing.T) {
	replace := map[string]func(s *site){
		"another directory": func(s *site) { write(s.t, s.path("team/data/precious"), "x") },
		"an empty directory": func(s *site) {
			must(s.t, os.Mkdir(s.path("team/data"), 0o770))
		},
		"a file":                  func(s *site) { write(s.t, s.path("team/data"), "x") },
		"a link out of the share": func(s *site) { must(s.t, os.Symlink(s.outside, s.path("team/data"))) },
		"a link to the directory": func(s *site) { must(s.t, os.Symlink("moved", s.path("team/data"))) },
		"a link on the way": func(s *site) {
			must(s.t, os.Rename(s.path("team"), s.path("t2")))
			must(s.t, os.Symlink("t2", s.path("team")))
		},
		"a way out of the share": func(s *site) {
			must(s.t, os.RemoveAll(s.path("team")))
			must(s.t, os.Symlink("../outside", s.path("team")))
		},
		"a file on the way":          func(s *site) { must(s.t, os.RemoveAll(s.path("team"))); write(s.t, s.path("team"), "x") },
		"another volume's directory": func(s *site) { must(s.t, os.Rename(s.path("second"), s.path("team/data"))) },
	}
	for name, put := range replace {
		for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive, sharedvolume.Retain} {
			t.Run(fmt.Sprintf("%s/%s", name, policy), func(t *testing.T) {
				s := newSite(t)
				target := s.prepare()
				for volume, directory := range map[string]string{"pvc-1": "team/data", "pvc-2": "second"} {
					_, err := s.Ensure(target, sharedvolume.Wish{Name: volume, Directory: directory, OnDelete: policy})
					must(t, err)
				}
				must(t, os.Rename(s.path("team/data"), s.path("team/moved")))
				write(t, s.path("team/moved/kept"), "x")
				put(s)
				before := tree(t, s.dir)
				_, err := s.Remove(target, "pvc-1", "", "", far)
				wantError(t, err, sharedvolume.ErrState, "team/data", "left alone")
				_, err = s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "team/data", OnDelete: policy})
				wantError(t, err, sharedvolume.ErrState)
				f, err := s.Find(target, "pvc-1", "team/data")
				if err == nil {
					f.Close()
				}
				wantError(t, err, sharedvolume.ErrState)
				if after := tree(t, s.dir); after != before {
					t.Errorf("changed:\n%s\nwant:\n%s", after, before)
				}
			})
		}
	}
}

func TestRemove_goneAlready(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive, sharedvolume.Retain} {
		s := newSite(t)
		target := s.prepare()
		empty := tree(t, s.dir)
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: policy})
		must(t, err)
		must(t, os.Remove(s.path("data")))
		r, err := s.Remove(target, "pvc-1", "", "", far)
		if err != nil || !r.Done || !strings.Contains(r.Note, "gone") || r.ArchivedAs != "" {
			t.Errorf("%s: %+v, %v", policy, r, err)
		}
		if after := tree(t, s.dir); after != empty {
			t.Errorf("%s: left:\n%s", policy, after)
		}
	}
}

// TestRemove_retainKilled kills a removal that leaves the directory at every change. Once anything is done, the volume is not used any more.
func TestRemove_retainKilled(t *testing.T) {
	for at := 1; ; at++ {
		s := newSite(t)
		target := s.prepare()
		s.volumes(target, sharedvolume.Retain, "a")
		before := tree(t, s.dir)
		k := &killer{at: at, after: true}
		if err := removeOne(s.agent(Config{Hook: k.hook}), target, "a"); err == nil {
			if at < 4 {
				t.Errorf("only %d changes", at)
			}
			break
		}
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: sharedvolume.Retain})
		if changed := tree(t, s.dir) != before; changed && err == nil {
			t.Errorf("killed at %d: the volume is used on", at)
		}
		moved := s.copied()
		_, err = moved.Prepare(target)
		must(t, err)
		for _, s := range []*site{s, moved} {
			must(t, removeOne(s.Share, target, "a"))
			s.holds("team/a/file", "a")
		}
	}
}

// TestRemove_theSaferPolicy keeps what either side wants kept.
func TestRemove_theSaferPolicy(t *testing.T) {
	for recorded, asked := range map[sharedvolume.Policy]sharedvolume.Policy{
		sharedvolume.Retain: sharedvolume.Delete, sharedvolume.Archive: sharedvolume.Delete, sharedvolume.Delete: sharedvolume.Retain,
	} {
		s := newSite(t)
		target := s.prepare()
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: recorded})
		must(t, err)
		write(t, s.path("data/file"), "x")
		r, err := s.Remove(target, "pvc-1", "", asked, far)
		if err != nil || r.OnDelete != sharedvolume.Safer(recorded, asked) {
			t.Errorf("%s and %s: %+v, %v", recorded, asked, r, err)
		}
		if _, err := os.Stat(s.path(map[bool]string{true: r.ArchivedAs, false: "data"}[r.ArchivedAs != ""] + "/file")); err != nil {
			t.Errorf("%s and %s: %v", recorded, asked, err)
		}
	}
}

// TestRemove_inSlices removes many files with little time per call.
func TestRemove_inSlices(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	const files, folders = 5000, 50
	for i := range folders {
		must(t, os.Mkdir(s.path(fmt.Sprintf("data/d%d", i)), 0o755))
	}
	for i := range files {
		must(t, os.WriteFile(s.path(fmt.Sprintf("data/d%d/%d", i%folders, i)), nil, 0o600))
	}
	must(t, os.Symlink(s.outside, s.path("data/d0/link")))
	must(t, os.Symlink("/", s.path("data/root")))
	must(t, os.Link(s.path("data/d0/0"), s.path("kept")))
	must(t, unix.Mkfifo(s.path("data/fifo"), 0o600))
	must(t, unix.Mknod(s.path("data/device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	const everything = files + folders + 4

	// Each look at the clock takes a millisecond, and a call has half a second.
	now := start
	agent := s.agent(Config{Now: func() time.Time { now = now.Add(time.Millisecond); return now }})
	last, calls := int64(0), 0
	for {
		r, err := agent.Remove(target, "pvc-1", "", "", now.Add(500*time.Millisecond))
		must(t, err)
		calls++
		if _, err := os.Stat(s.path("data")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the directory is still to be seen: %v", err)
		}
		if r.Removed <= last {
			t.Fatalf("no progress: %d, then %d", last, r.Removed)
		}
		last = r.Removed
		if r.Done {
			break
		}
		if r.OnDelete != sharedvolume.Delete {
			t.Errorf("%+v", r)
		}
		list, _, err := s.List(target, "", 10, time.Time{})
		if err != nil || len(list) != 1 || list[0].State != sharedvolume.Removing {
			t.Fatalf("in between: %+v, %v", list, err)
		}
		_, err = s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
		wantError(t, err, sharedvolume.ErrState, "being removed")
	}
	if last != everything || calls < 10 {
		t.Errorf("%d entries in %d calls, want %d", last, calls, everything)
	}
	if _, err := os.Stat(s.path("kept")); err != nil {
		t.Error(err)
	}
}

// TestRemove_takenSince lets another volume take the place while the first is still being removed.
func TestRemove_takenSince(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	write(t, s.path("data/a"), "x")
	r, err := s.Remove(target, "pvc-1", "", "", start)
	if err != nil || r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "pvc-2", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	write(t, s.path("data/b"), "x")
	r, err = s.Remove(target, "pvc-1", "", "", far)
	if err != nil || !r.Done || r.Removed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Stat(s.path("data/b")); err != nil {
		t.Error(err)
	}
}

// TestRemove_deep removes a tree that is deeper than a process may have open files.
func TestRemove_deep(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	const depth = 3000
	fd, err := unix.Open(s.path("data"), unix.O_DIRECTORY, 0)
	must(t, err)
	for i := range depth {
		name := "d"
		if i%100 == 0 {
			name = ".lifted-1"
		}
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	for _, plain := range []bool{true, false} {
		s.plain = plain
		r, err := s.Remove(target, "pvc-1", "", "", start.Add(time.Second))
		if err != nil || !r.Done || plain && r.Removed != depth {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

// TestRemove_cannot stops at what cannot be removed, says its name, and goes on when it can.
func TestRemove_cannot(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	must(t, os.MkdirAll(s.path("data/mounted\x1b"), 0o755))
	if err := unix.Mount("none", s.path("data/mounted\x1b"), "tmpfs", 0, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	unmounted := false
	defer func() {
		if !unmounted {
			_ = unix.Unmount(s.path("data/mounted\x1b"), unix.MNT_DETACH) // The test failed already.
		}
	}()
	write(t, s.path("data/mounted\x1b/precious"), "x")
	_, err = s.Remove(target, "pvc-1", "", "", far)
	wantError(t, err, sharedvolume.ErrState, `"mounted\x1b"`)
	trash := s.path(".quarry/removing/" + owner + ".pvc-1/mounted\x1b")
	content, err := os.ReadFile(trash + "/precious")
	if err != nil || string(content) != "x" {
		t.Errorf("the mounted filesystem: %q, %v", content, err)
	}
	must(t, unix.Unmount(trash, 0))
	unmounted = true
	r, err := s.Remove(target, "pvc-1", "", "", far)
	if err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestArchive_neverOverwrites(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := newSite(t)
		s.plain = plain
		target := s.prepare()
		long := strings.Repeat("ä", 127)
		want := map[string][]string{"data": nil, "team/" + long: nil}
		for directory := range want {
			for i := range 4 {
				volume := fmt.Sprintf("pvc-%d", i)
				_, err := s.Ensure(target, sharedvolume.Wish{Name: volume, Directory: directory, OnDelete: sharedvolume.Archive})
				must(t, err)
				write(t, s.path(directory+"/file"), volume)
				if i == 2 {
					// A name that is next, taken by something else.
					must(t, os.WriteFile(s.path(filepath.Dir(directory)+"/"+s.name(directory, 3)), nil, 0o600))
				}
				r, err := s.Remove(target, volume, "", "", far)
				if err != nil || !r.Done {
					t.Fatalf("%+v, %v", r, err)
				}
				if len(filepath.Base(r.ArchivedAs)) > 255 || !strings.HasPrefix(filepath.Base(r.ArchivedAs), "archived-") {
					t.Errorf("name %q", r.ArchivedAs)
				}
				want[directory] = append(want[directory], r.ArchivedAs)
			}
			for i, as := range want[directory] {
				content, err := os.ReadFile(s.path(as + "/file"))
				if err != nil || string(content) != fmt.Sprintf("pvc-%d", i) {
					t.Errorf("archive %q: %q, %v", as, content, err)
				}
			}
		}
	}
}

// name is the name of an archive at a try.
func (s *site) name(directory string, try int) string {
	o := &owned{Share: s.Share}
	return o.archiveName(filepath.Base(directory), try)
}
