package share

import (
	"errors"
	"os"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// abandon removes what is left of the volume, if it was never made.
func abandon(s *Share, target Target) error { return s.Abandon(target, "pvc-1") }

// TestAbandon_neverMade kills the making of a volume at every change, and then its removal at every change. What is left is abandoned, until
// the volume was made.
func TestAbandon_neverMade(t *testing.T) {
	abandoned, finished := 0, false
	for at := 1; !finished; at++ {
		for removedAt := 0; ; removedAt++ {
			s := newSite(t)
			target := s.prepare()
			empty := tree(t, s.dir)
			made := ensure("data", "delete")(s.agent(Config{Hook: (&killer{at: at}).hook}), target)
			list, _, err := s.List(target, "", 10, time.Time{})
			must(t, err)
			if len(list) == 1 && list[0].State == sharedvolume.Made {
				finished = true
				break
			}
			if made == nil {
				t.Fatal("it was made, and is not on record")
			}
			// With 0 nobody began to remove it.
			if removedAt > 0 {
				err := remove("")(s.agent(Config{Hook: (&killer{at: removedAt}).hook}), target)
				if err == nil {
					break
				}
				wantError(t, err, errKilled)
			}
			list, _, err = s.List(target, "", 10, time.Time{})
			must(t, err)
			for _, d := range list {
				if abandoned++; !d.NeverMade {
					t.Errorf("killed at %d, then at %d: %+v", at, removedAt, d)
				}
			}
			must(t, abandon(s.Share, target))
			if left := tree(t, s.dir); left != empty {
				t.Errorf("killed at %d, then at %d:\n%s\nwant:\n%s", at, removedAt, left, empty)
			}
		}
	}
	if abandoned < 5 {
		t.Errorf("only %d volumes were on record", abandoned)
	}
}

// TestAbandon_made lets a volume that the caller saw being made be made and used before the call.
func TestAbandon_made(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	k := s.agent(Config{Hook: func(effect string, done bool) error {
		if effect == "link pvc-1.json" && done {
			return errKilled
		}
		return nil
	}})
	wantError(t, ensure("data", "delete")(k, target), errKilled)
	if list, _, err := s.List(target, "", 10, time.Time{}); err != nil || len(list) != 1 || list[0].State != sharedvolume.Making || !list[0].NeverMade {
		t.Fatalf("%+v, %v", list, err)
	}
	must(t, ensure("data", "delete")(s.Share, target))
	write(t, s.path("data/file"), "precious")
	before := tree(t, s.dir)
	wantError(t, abandon(s.Share, target), sharedvolume.ErrState, "it was made")
	if after := tree(t, s.dir); after != before {
		t.Errorf("changed:\n%s\nwant:\n%s", after, before)
	}
	must(t, s.finds(target, "pvc-1", "data"))
}

// TestAbandon_beingRemoved leaves what a removal did not get to: somebody may want it.
func TestAbandon_beingRemoved(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	must(t, ensure("data", "delete")(s.Share, target))
	write(t, s.path("data/file"), "precious")
	if r, err := s.Remove(target, "pvc-1", "", "", start); err != nil || r.Done {
		t.Fatalf("%+v, %v", r, err)
	}
	list, _, err := s.List(target, "", 10, time.Time{})
	if err != nil || len(list) != 1 || list[0].State != sharedvolume.Removing || list[0].NeverMade {
		t.Fatalf("%+v, %v", list, err)
	}
	wantError(t, abandon(s.Share, target), sharedvolume.ErrState, "it was made")
	s.holds(list[0].Discarded()+"/file", "precious")
	must(t, remove("")(s.Share, target))
}

// TestAbandon_earlierRecord takes the record of an agent that did not write down whether the volume was made for one that was.
func TestAbandon_earlierRecord(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	s.volumes(target, sharedvolume.Delete, "a")
	s.rewrite("a", "a", map[string]any{"state": "removing", "doing": "delete"})
	list, _, err := s.List(target, "", 10, time.Time{})
	if err != nil || len(list) != 1 || list[0].NeverMade {
		t.Errorf("%+v, %v", list, err)
	}
	wantError(t, s.Abandon(target, "a"), sharedvolume.ErrState, "it was made")
	s.holds("team/a/file", "a")
}

// TestAbandon_keepsWhatIsInIt: what somebody put into a directory that was never ready stays.
func TestAbandon_keepsWhatIsInIt(t *testing.T) {
	s := newSite(t)
	target := s.prepare()
	must(t, ensure("data", "delete")(s.Share, target))
	s.rewrite("pvc-1", "pvc-1", map[string]any{"state": "making"})
	write(t, s.path("data/file"), "precious")
	if err := abandon(s.Share, target); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	s.holds("data/file", "precious")
}
