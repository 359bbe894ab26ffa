package share

import (
	"errors"
	"fmt"
	"testing"

	"quarry.storage/quarry/pkg/sharedvolume"
)

var errKilled = errors.New("killed")

// killer dies at one change of the share: before it, or right after it.
type killer struct {
	at    int
	after bool
	seen  int
}

func (k *killer) hook(_ string, done bool) error {
	if !done {
		k.seen++
	}
	if k.at > 0 && k.seen >= k.at && (done == k.after || k.seen > k.at) {
		return errKilled
	}
	return nil
}

// call is one call on a share by some agent.
type call func(s *Share, target Target) error

func ensure(directory string, policy sharedvolume.Policy) call {
	return func(s *Share, target Target) error {
		_, err := s.Ensure(target, sharedvolume.Wish{Name: "pvc-1", Directory: directory, OnDelete: policy})
		return err
	}
}

// remove calls until the volume is gone, as the controller does.
func remove(policy sharedvolume.Policy) call {
	return func(s *Share, target Target) error {
		for {
			r, err := s.Remove(target, "pvc-1", "", policy, far)
			if err != nil || r.Done {
				return err
			}
		}
	}
}

func prepare(s *Share, _ Target) error {
	_, err := s.Prepare(Target{Owner: owner})
	if err == nil {
		err = s.Probe()
	}
	return err
}

// TestKilledAnywhere kills every call at every change that it makes, once before the change and once after it, repeats the call, and
// expects the share to be exactly as if nothing had happened.
func TestKilledAnywhere(t *testing.T) {
	fill := func(s *site) {
		for _, f := range []string{"a", "b/c", "b/d/e"} {
			write(s.t, s.path("team/data/"+f), "x")
		}
	}
	none := func(*site) {}
	for name, c := range map[string]struct {
		first []call
		fill  func(*site)
		call  call
		// then is done after the repeated call.
		then []call
	}{
		"prepare":                     {nil, none, prepare, nil},
		"ensure":                      {[]call{prepare}, none, ensure("team/data", "delete"), nil},
		"ensure at the root":          {[]call{prepare}, none, ensure("data", "retain"), nil},
		"ensure, then removed":        {[]call{prepare}, none, ensure("team/data", "delete"), []call{remove("")}},
		"remove by deleting":          {[]call{prepare, ensure("team/data", "delete")}, fill, remove(""), nil},
		"remove by archiving":         {[]call{prepare, ensure("team/data", "archive")}, fill, remove(""), nil},
		"remove by retaining":         {[]call{prepare, ensure("team/data", "retain")}, fill, remove(""), nil},
		"remove an empty one":         {[]call{prepare, ensure("data", "delete")}, none, remove("delete"), nil},
		"remove and make again":       {[]call{prepare, ensure("team/data", "delete")}, fill, remove(""), []call{ensure("team/data", "delete")}},
		"archive and make again":      {[]call{prepare, ensure("team/data", "archive")}, fill, remove(""), []call{ensure("team/data", "archive")}},
		"archive what asks to delete": {[]call{prepare, ensure("team/data", "archive")}, fill, remove("delete"), nil},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/plain rename %t", name, plain), func(t *testing.T) {
				play := func(k *killer) string {
					s := newSite(t)
					target := Target{Owner: owner}
					for _, first := range c.first {
						must(t, first(s.Share, target))
					}
					c.fill(s)
					killed := s.agent(Config{Hook: k.hook})
					killed.plain = plain
					if err := c.call(killed, target); k.at > 0 && !errors.Is(err, errKilled) {
						t.Fatalf("killed at change %d, after %t: %v", k.at, k.after, err)
					} else if k.at == 0 {
						must(t, err)
					}
					s.plain = plain
					for _, again := range append([]call{c.call}, c.then...) {
						if err := again(s.Share, target); err != nil {
							t.Fatalf("after a kill at change %d, after %t: %v", k.at, k.after, err)
						}
					}
					return tree(t, s.dir)
				}
				whole := &killer{}
				want := play(whole)
				if whole.seen < 2 {
					t.Fatalf("only %d changes", whole.seen)
				}
				for at := 1; at <= whole.seen; at++ {
					for _, after := range []bool{false, true} {
						if got := play(&killer{at: at, after: after}); got != want {
							t.Errorf("killed at change %d of %d, after %t:\n%s\nwant:\n%s", at, whole.seen, after, got, want)
						}
					}
				}
			})
		}
	}
}

// TestKilledThenOtherwise kills a call and then makes the opposite one, as a claim that is deleted while it is made.
func TestKilledThenOtherwise(t *testing.T) {
	for after := range 2 {
		for at := 1; ; at++ {
			s := newSite(t)
			target := s.prepare()
			empty := tree(t, s.dir)
			k := &killer{at: at, after: after == 1}
			if err := ensure("data", "delete")(s.agent(Config{Hook: k.hook}), target); err == nil {
				break
			}
			must(t, remove("")(s.Share, target))
			if left := tree(t, s.dir); left != empty {
				t.Errorf("killed at %d, after %d:\n%s\nwant:\n%s", at, after, left, empty)
			}
		}
	}
}
