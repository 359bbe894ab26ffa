package share

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	owner = "0f3b2c1d-1111-2222-3333-444455556666"
	other = "0f3b2c1d-1111-2222-3333-777777777777"
)

// start is what the clock of tests says first.
var start = time.Date(2026, 11, 21, 19, 9, 0, 0, time.UTC)

// far is a time that no test reaches.
var far = start.Add(1000 * time.Hour)

// site is a share in a directory, with something outside that nobody may touch.
type site struct {
	*Share
	t     *testing.T
	above string
	// dir is the root of the share, outside a directory beside it.
	dir, outside string
	before       string
}

func newSite(t *testing.T) *site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	above := scratch(t)
	s := &site{t: t, above: above, dir: filepath.Join(above, "share"), outside: filepath.Join(above, "outside")}
	for _, d := range []string{s.dir, s.outside, filepath.Join(s.outside, "a")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(s.outside, "a", "precious"), "data")
	s.before = tree(t, s.outside)
	s.Share = s.agent(Config{})
	t.Cleanup(func() {
		if after := tree(t, s.outside); after != s.before {
			t.Errorf("something outside of the share changed:\n%s\nnow:\n%s", s.before, after)
		}
		entries, err := os.ReadDir(above)
		if err != nil || len(entries) != 2 {
			t.Errorf("beside the share there is %v, %v", entries, err)
		}
	})
	return s
}

// scratch is a directory in memory, where writing to disk takes no time.
func scratch(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "quarry-share")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// agent is one more agent that works on the share.
func (s *site) agent(cfg Config) *Share {
	s.t.Helper()
	fd, err := unix.Open(s.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return start }
	}
	share := New(fd, cfg)
	s.t.Cleanup(share.Close)
	return share
}

func (s *site) path(rel string) string { return filepath.Join(s.dir, rel) }

func (s *site) prepare() Target {
	s.t.Helper()
	id, err := s.Prepare(Target{Owner: owner})
	must(s.t, err)
	return Target{Owner: owner, ShareID: id}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error, says ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}

func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var p *sharedvolume.Problem
	if !errors.As(err, &p) || p.Reason != reason {
		t.Errorf("error %v, want reason %s", err, reason)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

// tree writes down everything below a directory, without the random names of drafts and identities.
func tree(t *testing.T, root string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if strings.HasPrefix(rel, ".quarry/tmp/") || strings.HasPrefix(rel, ".quarry/probe-") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*unixStat)
		line := fmt.Sprintf("%s %s %d:%d", rel, info.Mode(), stat.Uid, stat.Gid)
		switch {
		case strings.HasPrefix(rel, ".quarry/index/"):
			line = ".quarry/index/*"
			fallthrough
		case info.Mode().IsRegular() && rel != ".quarry/share.json":
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + numbers.ReplaceAllString(string(content), "*")
		}
		out = append(out, line)
		return nil
	})
	must(t, err)
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestLifecycle(t *testing.T) {
	for policy, want := range map[sharedvolume.Policy]string{
		sharedvolume.Delete: "", sharedvolume.Retain: "team/data", sharedvolume.Archive: "team/archived-data-20261121T190900Z",
	} {
		t.Run(string(policy), func(t *testing.T) {
			s := newSite(t)
			target := s.prepare()
			empty := tree(t, s.dir)
			s.makes(target, policy)
			write(t, s.path("team/data/file"), "x")
			s.removes(target, policy, want)
			if want != "" {
				if content, err := os.ReadFile(s.path(want + "/file")); err != nil || string(content) != "x" {
					t.Errorf("what was kept: %q, %v", content, err)
				}
				must(t, os.RemoveAll(s.path(want)))
			}
			// The directory on the way stays: it is nobody's.
			must(t, os.Remove(s.path("team")))
			if left := tree(t, s.dir); left != empty {
				t.Errorf("left:\n%s\nwant:\n%s", left, empty)
			}
		})
	}
}

// makes makes a volume twice, the second time with another size, which changes nothing, and finds it.
func (s *site) makes(target Target, policy sharedvolume.Policy) {
	s.t.Helper()
	want := sharedvolume.Directory{
		ID: sharedvolume.ID{Owner: owner, Name: "pvc-1"}, Directory: "team/data", OnDelete: policy, State: sharedvolume.Made,
		Created: time.Unix(start.Unix(), 0), ShareID: target.ShareID, Bytes: 1 << 30,
	}
	for again := range int64(2) {
		d, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "team/data", OnDelete: policy, Bytes: 1<<30 + again})
		if err != nil || d != want {
			s.t.Errorf("made %+v, %v, want %+v", d, err, want)
		}
	}
	info, err := os.Stat(s.path("team/data"))
	must(s.t, err)
	if info.Mode() != fs.ModeDir|0o770 {
		s.t.Errorf("mode %s", info.Mode())
	}
	list, next, err := s.List(target, "", 10, time.Time{})
	if err != nil || next != "" || len(list) != 1 || list[0] != want {
		s.t.Errorf("list %+v, %q, %v", list, next, err)
	}
	f, err := s.Find(target, "pvc-1", "team/data")
	must(s.t, err)
	f.Close()
}

// removes removes the volume twice.
func (s *site) removes(target Target, policy sharedvolume.Policy, kept string) {
	s.t.Helper()
	r, err := s.Remove(target, "pvc-1", "", "", far)
	if err != nil || !r.Done || r.OnDelete != policy || r.Note != "" {
		s.t.Fatalf("removed %+v, %v", r, err)
	}
	if want := map[bool]string{true: kept}[policy == sharedvolume.Archive]; r.ArchivedAs != want {
		s.t.Errorf("archived as %q, want %q", r.ArchivedAs, want)
	}
	r, err = s.Remove(target, "pvc-1", "", "", far)
	if err != nil || !r.Done {
		s.t.Errorf("removed again %+v, %v", r, err)
	}
}

func TestEnsure_conflicts(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	second := Target{Owner: other}
	_, err := s.Prepare(second)
	must(t, err)
	must(t, os.Mkdir(s.path("foreign"), 0o755))
	write(t, s.path("file"), "x")
	must(t, os.Symlink("../outside/a", s.path("link")))
	must(t, os.Symlink("foreign", s.path("inner")))
	_, err = s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: "team/data", OnDelete: sharedvolume.Delete})
	must(t, err)
	before := tree(t, s.dir)
	for name, c := range map[string]struct {
		target            Target
		volume, directory string
		policy            sharedvolume.Policy
		want              error
		says              string
	}{
		"another directory of the same volume":    {target, "pvc-1", "team/other", sharedvolume.Delete, sharedvolume.ErrTaken, `"team/data"`},
		"another policy of the same volume":       {target, "pvc-1", "team/data", sharedvolume.Retain, sharedvolume.ErrTaken, "delete"},
		"another volume with the same directory":  {target, "pvc-2", "team/data", sharedvolume.Delete, sharedvolume.ErrTaken, owner + "/pvc-1"},
		"another owner with the same directory":   {second, "pvc-1", "team/data", sharedvolume.Delete, sharedvolume.ErrTaken, owner + "/pvc-1"},
		"inside of a volume":                      {target, "pvc-2", "team/data/inside", sharedvolume.Delete, sharedvolume.ErrTaken, owner + "/pvc-1"},
		"deep inside of a volume":                 {second, "pvc-2", "team/data/deep/inside", sharedvolume.Delete, sharedvolume.ErrTaken, owner + "/pvc-1"},
		"around a volume":                         {target, "pvc-2", "team", sharedvolume.Delete, sharedvolume.ErrTaken, "not made for this volume"},
		"a directory that was there":              {target, "pvc-2", "foreign", sharedvolume.Delete, sharedvolume.ErrTaken, "not made for this volume"},
		"a file":                                  {target, "pvc-2", "file", sharedvolume.Delete, sharedvolume.ErrTaken, "not made for this volume"},
		"below a file":                            {target, "pvc-2", "file/data", sharedvolume.Delete, sharedvolume.ErrTaken, ""},
		"a link out of the share":                 {target, "pvc-2", "link", sharedvolume.Delete, sharedvolume.ErrTaken, ""},
		"below a link out of the share":           {target, "pvc-2", "link/data", sharedvolume.Delete, sharedvolume.ErrTaken, ""},
		"below a link within the share":           {target, "pvc-2", "inner/data", sharedvolume.Delete, sharedvolume.ErrTaken, ""},
		"what is outside by a directory of links": {target, "pvc-2", "link/precious", sharedvolume.Delete, sharedvolume.ErrTaken, ""},
	} {
		_, err := s.Ensure(c.target, sharedvolume.Wish{Name: c.volume, Directory: c.directory, OnDelete: c.policy})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after := tree(t, s.dir); after != before {
			t.Errorf("%s left something:\n%s\nwant:\n%s", name, after, before)
		}
	}
}

func TestHostileNames(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	before := tree(t, s.above)
	bad := []string{
		"", ".", "..", "../outside", "../outside/a", "/", "/etc", "a/../../outside", "a/..", "./a", "a/./b", "a//b", "a/", ".quarry", ".quarry/volumes",
		"a/.quarry", ".hidden", "a\x00b", "../outside\x00", "a\nb", "a\x1b[2J", "\xff", "lost+found", strings.Repeat("a", 256),
		strings.Repeat("../", 40) + "etc/passwd", "a/" + strings.Repeat("b/", 20), "..\\outside", " ..", "a/.. ", "..;/outside", "%2e%2e/outside\x00",
	}
	for _, name := range bad {
		if _, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: name, OnDelete: sharedvolume.Delete}); !errors.Is(err, sharedvolume.ErrInvalid) {
			t.Errorf("directory %q: %v", name, err)
		}
		if _, err := s.Ensure(target, sharedvolume.Wish{Name: name, Directory: "dir", OnDelete: sharedvolume.Delete}); !errors.Is(err, sharedvolume.ErrInvalid) {
			t.Errorf("volume %q: %v", name, err)
		}
		if _, err := s.Remove(target, name, "", sharedvolume.Delete, far); !errors.Is(err, sharedvolume.ErrInvalid) {
			t.Errorf("removing volume %q: %v", name, err)
		}
		if f, err := s.Find(target, name, "dir"); err == nil {
			f.Close()
			t.Errorf("finding volume %q", name)
		}
		evil := Target{Owner: name}
		_, prepareErr := s.Prepare(evil)
		_, ensureErr := s.Ensure(evil, sharedvolume.Wish{Name: "pvc-1", Directory: "dir", OnDelete: sharedvolume.Delete})
		_, removeErr := s.Remove(evil, "pvc-1", "", sharedvolume.Delete, far)
		_, _, listErr := s.List(evil, "", 10, time.Time{})
		for _, err := range []error{prepareErr, ensureErr, removeErr, listErr} {
			if !errors.Is(err, sharedvolume.ErrInvalid) {
				t.Errorf("owner %q: %v", name, err)
			}
		}
	}
	if after := tree(t, s.above); after != before {
		t.Errorf("something was made:\n%s\nwant:\n%s", after, before)
	}
}
