package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// TestPrepare tells shares apart, and never makes a mark where one has to be.
func TestPrepare(t *testing.T) {
	s := newSite(t)
	_, err := s.Identify(Target{Owner: owner})
	wantReason(t, err, sharedvolume.ReasonNotPrepared)
	for name, work := range map[string]call{"ensure": ensure("data", "delete"), "remove": remove("")} {
		err := work(s.Share, Target{Owner: owner})
		var p *sharedvolume.Problem
		if !errors.As(err, &p) || p.Reason != sharedvolume.ReasonNotPrepared {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = s.Prepare(Target{Owner: owner, ShareID: other})
	wantReason(t, err, sharedvolume.ReasonOtherShare)
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 0 {
		t.Errorf("something was written: %v, %v", entries, err)
	}
	target := s.prepare()
	again, err := s.Prepare(target)
	if err != nil || again != target.ShareID {
		t.Errorf("again %q, %v", again, err)
	}
	second, err := s.Prepare(Target{Owner: other, ShareID: target.ShareID})
	if err != nil || second != target.ShareID {
		t.Errorf("another owner %q, %v", second, err)
	}
	for _, work := range []call{ensure("data", "delete"), remove("")} {
		wantReason(t, work(s.Share, Target{Owner: owner, ShareID: other}), sharedvolume.ReasonOtherShare)
	}
	_, err = s.Prepare(Target{Owner: owner, ShareID: other})
	wantReason(t, err, sharedvolume.ReasonOtherShare)

	// The disk behind the export is not mounted any more.
	must(t, os.Rename(s.path(".quarry"), s.path("hidden")))
	for _, work := range []call{ensure("data", "delete"), remove("")} {
		wantReason(t, work(s.Share, target), sharedvolume.ReasonOtherShare)
	}
	_, err = s.Prepare(target)
	wantReason(t, err, sharedvolume.ReasonOtherShare)
}

func TestProbe(t *testing.T) {
	s := newSite(t)
	s.prepare()
	before := tree(t, s.dir)
	must(t, s.Probe())
	if after := tree(t, s.dir); after != before {
		t.Errorf("left:\n%s", after)
	}
	if entries, err := os.ReadDir(s.path(".quarry/tmp")); err != nil || len(entries) != 0 {
		t.Errorf("drafts: %v, %v", entries, err)
	}
	for errno, reason := range map[unix.Errno]string{
		unix.EPERM: sharedvolume.ReasonRootSquashed, unix.EACCES: sharedvolume.ReasonRootSquashed, unix.EROFS: sharedvolume.ReasonReadOnly,
		unix.ENOSPC: sharedvolume.ReasonNoSpace, unix.EDQUOT: sharedvolume.ReasonNoSpace, unix.ETIMEDOUT: sharedvolume.ReasonUnreachable,
		unix.ESTALE: sharedvolume.ReasonUnreachable, unix.EIO: sharedvolume.ReasonUnknown,
	} {
		for _, effect := range []string{"mkdir", "chown"} {
			agent := s.agent(Config{Hook: func(what string, done bool) error {
				if strings.HasPrefix(what, effect) && !done {
					return errno
				}
				return nil
			}})
			err := agent.Probe()
			wantReason(t, err, reason)
			if reason == sharedvolume.ReasonRootSquashed && !strings.Contains(err.Error(), "export the share with no_root_squash") {
				t.Errorf("does not say what to set: %v", err)
			}
		}
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("left:\n%s", after)
	}
}

// TestProbe_numbers refuses numbers that say nothing.
func TestProbe_numbers(t *testing.T) {
	must(t, unstable(7, 7, 7))
	wantReason(t, unstable(7, 8, 7), sharedvolume.ReasonUnstable)
	wantReason(t, unstable(7, 7, 8), sharedvolume.ReasonUnstable)
}

// TestTidy removes what killed calls left, once nobody can be at it.
func TestTidy(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	write(t, s.path(".quarry/tmp/old"), "x")
	write(t, s.path(".quarry/tmp/new"), "x")
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, s.path(".quarry/tmp/old"), []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0))
	_, err := s.Prepare(target)
	must(t, err)
	entries, err := os.ReadDir(s.path(".quarry/tmp"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "new" {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestDamagedRecords refuses every record that this agent did not write, and touches nothing on its word.
func TestDamagedRecords(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	path := s.path(".quarry/volumes/" + owner + "/pvc-1.json")
	good, err := os.ReadFile(path)
	must(t, err)
	change := func(key string, value any) []byte {
		m := map[string]any{}
		must(t, json.Unmarshal(good, &m))
		m[key] = value
		content, err := json.Marshal(m)
		must(t, err)
		return content
	}
	for name, content := range map[string][]byte{
		"empty": {}, "half": good[:len(good)/2], "no JSON": []byte("x"), "a list": []byte("[]"), "null": []byte("null"),
		"a later version": change("version", 2), "another volume": change("volume", "pvc-2"), "another owner": change("owner", other),
		"a way out": change("directory", "../outside"), "absolute": change("directory", "/etc"), "our marks": change("directory", ".quarry"),
		"no directory": change("directory", ""), "an unknown policy": change("onDelete", "purge"), "no policy": change("onDelete", ""),
		"an unknown state": change("state", "lost"), "no inode": change("inode", "0"), "no tree": change("tree", ""),
		"a way out for the archive": change("archive", "../outside/x"), "removing without an action": change("state", "removing"),
		"too large": append([]byte(strings.Repeat(" ", maxRecord)), good...),
	} {
		must(t, os.WriteFile(path, content, 0o600))
		before := tree(t, s.dir)
		_, ensureErr := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
		_, removeErr := s.Remove(target, "pvc-1", "", "", far)
		_, _, listErr := s.List(target, "", 10, time.Time{})
		f, findErr := s.Find(target, "pvc-1", "data")
		if f != nil {
			f.Close()
		}
		for what, err := range map[string]error{"ensure": ensureErr, "remove": removeErr, "list": listErr, "find": findErr} {
			if !errors.Is(err, sharedvolume.ErrState) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if after := tree(t, s.dir); after != before {
			t.Errorf("%s: changed:\n%s\nwant:\n%s", name, after, before)
		}
	}
	for name, replace := range map[string]func() error{
		"a link":      func() error { return os.Symlink("../../../../outside/a/precious", path) },
		"a directory": func() error { return os.Mkdir(path, 0o700) },
		"a fifo":      func() error { return unix.Mkfifo(path, 0o600) },
	} {
		must(t, os.RemoveAll(path))
		must(t, replace())
		if _, err := s.Remove(target, "pvc-1", "", "", far); err == nil {
			t.Errorf("%s is read as a record", name)
		}
	}
}

func TestList_pages(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	var want []string
	for _, name := range []string{"a", "a-b", "a0", "b", "pvc-1", "pvc-10", "pvc-2"} {
		_, err := s.Ensure(target, sharedvolume.Wish{Name: name, Directory: "dir-" + name, OnDelete: sharedvolume.Delete})
		must(t, err)
		want = append(want, name)
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		for after := ""; ; {
			list, next, err := s.List(target, after, limit, time.Time{})
			must(t, err)
			for _, d := range list {
				got = append(got, d.Name)
			}
			if next == "" {
				break
			}
			after = next
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("pages of %d: %v", limit, got)
		}
	}
}

func TestFind(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	for name, c := range map[string]struct {
		volume, directory string
		want              error
	}{
		"another directory": {"pvc-1", "other", sharedvolume.ErrState}, "an unknown volume": {"pvc-2", "data", os.ErrNotExist},
		"no volume": {"../x", "data", sharedvolume.ErrNotOurs},
	} {
		f, err := s.Find(target, c.volume, c.directory)
		if f != nil {
			f.Close()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := s.Remove(target, "pvc-1", "", "", start)
	if err != nil || !r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestTwoAgents lets two agents make, at the same time, volumes that want the same place, or places inside of each other. At most one
// of them gets it, and nobody's directory is inside of another's.
func TestTwoAgents(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := newSite(t)
		target := s.prepare()
		agents := []*Share{s.agent(Config{}), s.agent(Config{})}
		for _, a := range agents {
			a.plain = plain
		}
		both := 0
		for i := range 300 {
			wishes := []string{fmt.Sprintf("d%d", i), fmt.Sprintf("d%d", i)}
			if i%2 == 1 {
				wishes[1] += "/inside"
			}
			if s.compete(target, agents, i, wishes) == 2 {
				both++
			}
		}
		if !plain && both > 0 {
			t.Errorf("both were told that they have it: %d times", both)
		}
		t.Logf("plain rename %t: both were told that they have it %d times", plain, both)
	}
}

// compete lets each agent make a volume, and returns how many were told that they have it. At most one really has.
func (s *site) compete(target Target, agents []*Share, round int, wishes []string) int {
	s.t.Helper()
	errs := make([]error, len(agents))
	var wait sync.WaitGroup
	for n, a := range agents {
		wait.Go(func() {
			_, errs[n] = a.Ensure(target, sharedvolume.Wish{Name: fmt.Sprintf("v%d-%d", round, n), Directory: wishes[n], OnDelete: sharedvolume.Delete})
		})
	}
	wait.Wait()
	found, told := 0, 0
	for n, err := range errs {
		if err == nil {
			told++
		}
		f, findErr := s.Find(target, fmt.Sprintf("v%d-%d", round, n), wishes[n])
		if findErr != nil {
			continue
		}
		f.Close()
		found++
		if err != nil && !errors.Is(err, sharedvolume.ErrTaken) {
			s.t.Errorf("%v, and yet it is there", err)
		}
	}
	if found > 1 {
		s.t.Fatalf("round %d: both have a directory: %v", round, errs)
	}
	return told
}

// TestTwoAgents_sameVolume lets two agents make and remove the same volume at the same time.
func TestTwoAgents_sameVolume(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	empty := tree(t, s.dir)
	for range 100 {
		agents := []*Share{s.agent(Config{}), s.agent(Config{})}
		for _, work := range []call{ensure("data", "delete"), remove("")} {
			var wait sync.WaitGroup
			for _, a := range agents {
				wait.Go(func() { _ = work(a, target) }) // One of them may lose; what counts is the end.
			}
			wait.Wait()
			must(t, work(s.Share, target))
		}
		if after := tree(t, s.dir); after != empty {
			t.Fatalf("left:\n%s\nwant:\n%s", after, empty)
		}
	}
}
