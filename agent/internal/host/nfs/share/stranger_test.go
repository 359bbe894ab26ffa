package share

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// stranger makes a directory at the place of volume a, which somebody else has data in.
func (s *site) stranger() {
	s.t.Helper()
	write(s.t, s.path("team/a/stranger"), "precious")
}

// TestCopiedShare_strangerLater makes a directory at the place of a volume that was gone when the records of a copy were compared. Nothing
// takes it for the volume's, and nothing removes it.
func TestCopiedShare_strangerLater(t *testing.T) {
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive, sharedvolume.Retain} {
		first := newSite(t)
		target := first.prepare()
		first.volumes(target, policy, "a")
		must(t, os.RemoveAll(first.path("team/a")))
		s := first.copied()
		_, err := s.Prepare(target)
		must(t, err)
		s.stranger()
		before := tree(t, s.dir)
		for range 2 {
			wantError(t, removeOne(s.Share, target, "a"), sharedvolume.ErrState, "put back later", ".quarry/compared.json")
			wantError(t, s.finds(target, "a", "team/a"), sharedvolume.ErrState, "put back later")
			_, err = s.Ensure(target, sharedvolume.Wish{Name: "a", Directory: "team/a", OnDelete: policy})
			wantError(t, err, sharedvolume.ErrState, "put back later")
			_, err = s.Prepare(target)
			must(t, err)
		}
		if after := tree(t, s.dir); after != before {
			t.Errorf("%s changed:\n%s\nwant:\n%s", policy, after, before)
		}
		// Once it is out of the way, the volume is gone.
		must(t, os.Rename(s.path("team/a"), s.path("team/theirs")))
		must(t, removeOne(s.Share, target, "a"))
		s.holds("team/theirs/stranger", "precious")
	}
}

// TestCopiedShare_strangerAtAKilledRemoval kills a removal at every change, lets somebody else take the place where it is free, and goes on
// in a copy. The stranger's directory stays, whatever people do about the refusal.
func TestCopiedShare_strangerAtAKilledRemoval(t *testing.T) {
	refused := map[sharedvolume.Policy]int{}
	for _, policy := range []sharedvolume.Policy{sharedvolume.Delete, sharedvolume.Archive} {
		for after := range 2 {
			for at := 1; ; at++ {
				first := newSite(t)
				target := first.prepare()
				first.volumes(target, policy, "a")
				k := &killer{at: at, after: after == 1}
				if err := removeOne(first.agent(Config{Hook: k.hook}), target, "a"); err == nil {
					break
				}
				if _, err := os.Stat(first.path("team/a")); !errors.Is(err, os.ErrNotExist) {
					continue
				}
				first.stranger()
				s := first.copied()
				if err := s.endsWithStranger(target); err != nil {
					refused[policy]++
					if !errors.Is(err, sharedvolume.ErrState) || !strings.Contains(err.Error(), "not known") {
						t.Errorf("%s, killed at %d, after %d: %v", policy, at, after, err)
					}
				}
				s.holds("team/a/stranger", "precious")
				s.gone(target, "a")
			}
		}
	}
	if refused[sharedvolume.Delete] == 0 {
		t.Error("a killed removal was never refused")
	}
}

// endsWithStranger removes volume a, as far as it goes, and then takes away what people are told to take away. It returns the first refusal.
func (s *site) endsWithStranger(target Target) error {
	refusal := removeOne(s.Share, target, "a")
	if refusal == nil {
		return nil
	}
	trash := s.path(".quarry/removing/" + owner + ".a")
	if _, err := os.Stat(trash); err == nil {
		must(s.t, os.RemoveAll(trash))
		wantError(s.t, removeOne(s.Share, target, "a"), sharedvolume.ErrState, "not known", `"team/a"`)
		s.compareOnceMore(target)
		wantError(s.t, removeOne(s.Share, target, "a"), sharedvolume.ErrState, "not known", `"team/a"`)
	}
	must(s.t, os.Rename(s.path("team/a"), s.path("team/theirs")))
	must(s.t, removeOne(s.Share, target, "a"))
	must(s.t, os.Rename(s.path("team/theirs"), s.path("team/a")))
	return refusal
}

// gone expects that a volume is forgotten.
func (s *site) gone(target Target, volume string) {
	s.t.Helper()
	if list, _, err := s.List(target, "", 10, time.Time{}); err != nil || len(list) != 0 {
		s.t.Errorf("volume %s is still on record: %+v, %v", volume, list, err)
	}
}

// TestCopiedShare_archiveMovedAway copies a share after a directory was archived, and takes the archive away: what is at the place is not
// archived in its stead.
func TestCopiedShare_archiveMovedAway(t *testing.T) {
	first := newSite(t)
	target := first.prepare()
	first.volumes(target, sharedvolume.Archive, "a")
	killed := first.agent(Config{Hook: func(effect string, done bool) error {
		if strings.HasPrefix(effect, "move") && done {
			return errKilled
		}
		return nil
	}})
	wantError(t, removeOne(killed, target, "a"), errKilled)
	must(t, os.RemoveAll(first.path("team/archived-a-20261121T190900Z")))
	first.stranger()
	s := first.copied()
	wantError(t, removeOne(s.Share, target, "a"), sharedvolume.ErrState, "not known")
	s.holds("team/a/stranger", "precious")
	must(t, os.Rename(s.path("team/a"), s.path("team/theirs")))
	must(t, removeOne(s.Share, target, "a"))
	s.gone(target, "a")
}

// TestCopiedShare_comparedMeanwhile lets another agent come to the end of the comparison while one is still at it. What appears at a place
// afterwards is not taken for the volume's by the slow one, and a volume that was removed stays forgotten.
func TestCopiedShare_comparedMeanwhile(t *testing.T) {
	for name, then := range map[string]func(s *site, target Target){
		"a stranger comes": func(s *site, _ Target) { s.stranger() },
		"the volume goes": func(s *site, target Target) {
			must(s.t, removeOne(s.Share, target, "a"))
			s.stranger()
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := newSite(t)
			target := first.prepare()
			first.volumes(target, sharedvolume.Delete, "a")
			must(t, os.RemoveAll(first.path("team/a")))
			s := first.copied()
			s.earlier()
			over := false
			slow := s.agent(Config{Hook: func(effect string, done bool) error {
				if effect == fmt.Sprintf("rename %s", holderFile) && done && !over {
					over = true
					_, err := s.Prepare(target)
					must(t, err)
					then(s, target)
				}
				return nil
			}})
			_, err := slow.Prepare(target)
			must(t, err)
			if !over {
				t.Fatal("nothing happened meanwhile")
			}
			_ = removeOne(s.Share, target, "a") // It is refused, or there is nothing to remove.
			s.holds("team/a/stranger", "precious")
		})
	}
}
