package share

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// within is a share whose root is a directory of another share, as a server exports both.
func (s *site) within(directory string) (*site, Target) {
	s.t.Helper()
	inner := &site{t: s.t, above: s.above, dir: s.path(directory), outside: s.outside}
	fd, err := unix.Open(inner.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(s.t, err)
	unix.Close(fd)
	inner.Share = inner.agent(Config{})
	id, err := inner.Prepare(Target{Owner: other})
	must(s.t, err)
	return inner, Target{Owner: other, ShareID: id}
}

// TestNestedShares_inTheWay: a share that is exported from inside of another one keeps its volumes to itself, and the other way round.
func TestNestedShares_inTheWay(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a")
	inner, owned := s.within("team")
	_, err := inner.Ensure(owned, sharedvolume.Wish{Name: "b", Directory: "b", OnDelete: sharedvolume.Delete})
	must(t, err)
	write(t, inner.path("b/file"), "b")
	for _, directory := range []string{"team/b", "team/b/inside", "team/new", "team/new/deep"} {
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "new", Directory: directory, OnDelete: sharedvolume.Delete})
		wantError(t, err, sharedvolume.ErrTaken)
	}
	_, err = inner.Ensure(owned, sharedvolume.Wish{Name: "new", Directory: "a", OnDelete: sharedvolume.Delete})
	wantError(t, err, sharedvolume.ErrTaken)
	must(t, removeOne(s.Share, target, "a"))
	s.holds("team/b/file", "b")
	must(t, removeOne(inner.Share, owned, "b"))
}

// TestNestedShares_aroundAVolume: a share that somebody exported from a directory on the way to a volume has volumes inside of that one. They
// hold its removal.
func TestNestedShares_aroundAVolume(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive} {
		for _, at := range []string{"team", "team/deep"} {
			s := newSite(t)
			target := s.prepare()
			_, err := s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/deep/a", OnDelete: policy})
			must(t, err)
			inner, owned := s.within(at)
			inside := strings.TrimPrefix("team/deep/a/inside/b", at+"/")
			_, err = inner.Ensure(owned, sharedvolume.Wish{Name: "b", Directory: inside, OnDelete: sharedvolume.Retain})
			must(t, err)
			write(t, inner.path(inside+"/file"), "b")
			// A volume beside it holds nothing.
			_, err = inner.Ensure(owned, sharedvolume.Wish{Name: "c", Directory: "beside", OnDelete: sharedvolume.Delete})
			must(t, err)
			for _, earlier := range []bool{false, true} {
				if earlier {
					inner.earlier()
				}
				before := tree(t, s.dir)
				wantError(t, removeOne(s.Share, target, "a"), sharedvolume.ErrState, at, "share of its own")
				if after := tree(t, s.dir); after != before {
					t.Errorf("changed:\n%s\nwant:\n%s", after, before)
				}
			}
			must(t, removeOne(inner.Share, owned, "b"))
			must(t, os.RemoveAll(inner.path(inside)))
			must(t, removeOne(s.Share, target, "a"))
			must(t, inner.finds(owned, "c", "beside"))
		}
	}
}

// TestNestedShares_inAVolume: a share that somebody exported from inside of a volume holds the removal of that volume, wherever it is.
func TestNestedShares_inAVolume(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive} {
		for _, at := range []string{"team/a", "team/a/deep/down"} {
			s := newSite(t)
			target := s.prepare()
			s.volumes(target, policy, "a")
			must(t, os.MkdirAll(s.path(at), 0o755))
			inner, owned := s.within(at)
			_, err := inner.Ensure(owned, sharedvolume.Wish{Name: "b", Directory: "b", OnDelete: sharedvolume.Delete})
			must(t, err)
			write(t, inner.path("b/file"), "b")
			err = removeOne(s.Share, target, "a")
			if policy == sharedvolume.Delete || at == "team/a" {
				wantError(t, err, sharedvolume.ErrState, "share of its own")
			}
			if found := s.find("file", "b"); !found {
				t.Errorf("%s, %s: the volume of the inner share is gone", policy, at)
			}
			must(t, removeOne(inner.Share, owned, "b"))
			must(t, removeOne(s.Share, target, "a"))
		}
	}
}

// TestNestedShares_namesOnly: what only looks like the marks of a share is removed with its volume.
func TestNestedShares_namesOnly(t *testing.T) {
	for name, put := range map[string]func(root string){
		"an empty directory": func(root string) {},
		"a share without volumes": func(root string) {
			write(t, root+"/share.json", `{"version":1,"id":"`+owner+`"}`)
			must(t, os.MkdirAll(root+"/volumes/"+owner, 0o755))
		},
		"no identity":      func(root string) { write(t, root+"/share.json", "x"); write(t, root+"/volumes/x/y", "") },
		"a link":           func(root string) { must(t, os.Symlink("/etc/passwd", root+"/share.json")) },
		"a directory":      func(root string) { must(t, os.Mkdir(root+"/share.json", 0o755)) },
		"volumes are none": func(root string) { write(t, root+"/share.json", `{"id":"`+owner+`"}`); write(t, root+"/volumes", "") },
		"an identity of no share": func(root string) {
			write(t, root+"/share.json", `{"id":"x"}`)
			write(t, root+"/volumes/"+owner+"/a.json", "")
		},
		"owners that are none": func(root string) {
			write(t, root+"/share.json", `{"id":"`+owner+`"}`)
			write(t, root+"/volumes/x/a.json", "")
		},
		"records that are none": func(root string) {
			write(t, root+"/share.json", `{"id":"`+owner+`"}`)
			write(t, root+"/volumes/"+owner+"/a", "")
		},
	} {
		s := newSite(t)
		target := s.prepare()
		s.volumes(target, sharedvolume.Delete, "a")
		root := s.path("team/a/.quarry")
		must(t, os.Mkdir(root, 0o755))
		put(root)
		if err := removeOne(s.Share, target, "a"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNestedShares_manyNames: what a pod makes below a name of ours is removed in the time that a call has.
func TestNestedShares_manyNames(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a")
	root := s.path("team/a/.quarry")
	write(t, root+"/share.json", `{"id":"`+owner+`"}`)
	for i := range 1000 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/volumes/0f3b2c1d-1111-2222-3333-%012d", root, i), 0o755))
	}
	d, err := s.root.open("team/a")
	must(t, err)
	defer d.close()
	owners, err := d.some(".quarry/volumes")
	if err != nil || len(owners) > maxMarks {
		t.Errorf("%d names are read at once, %v", len(owners), err)
	}
	must(t, removeOne(s.Share, target, "a"))
}

// find reports whether a file of a name and content is anywhere on the share.
func (s *site) find(name, content string) (found bool) {
	s.t.Helper()
	must(s.t, filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == name {
			var got []byte
			if got, err = os.ReadFile(path); string(got) == content {
				found = true
			}
		}
		return err
	}))
	return found
}
