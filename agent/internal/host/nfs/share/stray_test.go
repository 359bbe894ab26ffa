package share

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// strays lets the rename that an agent asked for to delete volume x come when volume b has its place: the server moves what is there now.
func (s *site) strays(target Target, policy sharedvolume.Policy) (at string) {
	s.t.Helper()
	_, err := s.Ensure(target, sharedvolume.Wish{Name: "x", Directory: "team/b", OnDelete: sharedvolume.Delete})
	must(s.t, err)
	must(s.t, removeOne(s.Share, target, "x"))
	s.volumes(target, policy, "b")
	return ".quarry/removing/" + owner + ".x"
}

// TestStrayed moves the directory of a volume out of sight under the name of another, before its removal and in the middle of it. Nothing calls
// it gone, nothing forgets it, and nothing moves it back but a person.
func TestStrayed(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive, sharedvolume.Retain} {
		for _, begun := range []bool{false, true} {
			if begun && policy == sharedvolume.Retain {
				continue // The directory is left already.
			}
			t.Run(fmt.Sprintf("%s/begun %t", policy, begun), func(t *testing.T) {
				s := newSite(t)
				target := s.prepare()
				at := s.strays(target, policy)
				if begun {
					k := s.agent(Config{Hook: func(effect string, done bool) error {
						if effect == "rename b.json" && done {
							return errKilled
						}
						return nil
					}})
					wantError(t, removeOne(k, target, "b"), errKilled)
				}
				must(t, os.Rename(s.path("team/b"), s.path(at)))
				before := tree(t, s.dir)
				says := []string{at, `Move it back to "team/b"`}
				wantError(t, removeOne(s.Share, target, "b"), sharedvolume.ErrState, says...)
				if !begun {
					wantError(t, s.finds(target, "b", "team/b"), sharedvolume.ErrState, says...)
					_, err := s.Ensure(target, sharedvolume.Wish{Name: "b", Directory: "team/b", OnDelete: policy})
					wantError(t, err, sharedvolume.ErrState, says...)
				}
				if after := tree(t, s.dir); after != before {
					t.Errorf("changed:\n%s\nwant:\n%s", after, before)
				}
				s.holds(at+"/file", "b")

				must(t, os.Rename(s.path(at), s.path("team/b")))
				if !begun {
					must(t, s.finds(target, "b", "team/b"))
				}
				r, err := s.Remove(target, "b", "", "", far)
				if err != nil || !r.Done || r.Note != "" {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
	}
}

// TestStrayed_underItsOwnName: the volume was made again under its name. A record that says that it is there is no removal of another agent, which would be
// over soon.
func TestStrayed_underItsOwnName(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "b")
	at := ".quarry/removing/" + owner + ".b"
	must(t, os.Rename(s.path("team/b"), s.path(at)))
	wantError(t, s.finds(target, "b", "team/b"), sharedvolume.ErrState, at, `Move it back to "team/b"`)
	s.holds(at+"/file", "b")
}

// TestStrayed_isAnothers: where another volume has the inode by now, what is found out of sight is that one's, and the first is gone.
func TestStrayed_isAnothers(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a", "b")
	must(t, os.RemoveAll(s.path("team/a")))
	s.rewrite("a", "a", map[string]any{"inode": fmt.Sprint(s.inode("team/b"))})
	if r, err := s.Remove(target, "b", "", "", start); err != nil || r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := s.Remove(target, "a", "", "", far); err != nil || !r.Done || !strings.Contains(r.Note, "gone") {
		t.Errorf("%+v, %v", r, err)
	}
	s.holds(".quarry/removing/"+owner+".b/file", "b")
}
