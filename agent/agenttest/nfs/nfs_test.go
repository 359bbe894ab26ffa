package nfs

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const owner = "0f3b2c1d-1111-2222-3333-444455556666"

func TestContract_model(t *testing.T) {
	Contract(t, func(*testing.T) Site {
		servers := NewServers()
		h := servers.Export("nas", "/export", 1<<30)
		return Site{
			Directories: servers.From("node-1"), Share: sharedvolume.Share{Server: "nas", Path: "/export", Owner: owner},
			Put: h.Put, Take: h.Take, Forget: func() { h.Forget(owner) },
			List: func() []string {
				return slices.DeleteFunc(h.Directories(), func(d string) bool { return strings.Contains(d, "/") })
			},
		}
	})
}

func TestProblems(t *testing.T) {
	servers := NewServers()
	h := servers.Export("nas", "/export", 1<<30)
	s := sharedvolume.Share{Server: "nas", Path: "/export", Owner: owner}
	reason := func(node string) string {
		seen, err := servers.From(node).GetShare(t.Context(), s, true)
		if err != nil {
			t.Fatal(err)
		}
		if seen.Problem == nil {
			s.ID = seen.ID
			return ""
		}
		return seen.Problem.Reason
	}
	if got := reason("a"); got != "" {
		t.Errorf("at first: %s", got)
	}
	h.Break("a", sharedvolume.ReasonRefused, "no")
	if a, b := reason("a"), reason("b"); a != sharedvolume.ReasonRefused || b != "" {
		t.Errorf("one node: %s, %s", a, b)
	}
	h.Break("", sharedvolume.ReasonUnreachable, "no")
	if b := reason("b"); b != sharedvolume.ReasonUnreachable {
		t.Errorf("all nodes: %s", b)
	}
	h.Mend()
	h.Lose()
	if got := reason("a"); got != sharedvolume.ReasonOtherShare {
		t.Errorf("another directory: %s", got)
	}
	s.Server = "other"
	if got := reason("a"); got != sharedvolume.ReasonNotExported {
		t.Errorf("another server: %s", got)
	}
}

func TestSlices(t *testing.T) {
	servers := NewServers()
	h := servers.Export("nas", "/export", 1<<30)
	h.Use(1<<20, 2500)
	v := servers.From("a")
	s := sharedvolume.Share{Server: "nas", Path: "/export", Owner: owner}
	if _, err := v.GetShare(t.Context(), s, true); err != nil {
		t.Fatal(err)
	}
	if _, err := v.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "a", Directory: "b", OnDelete: sharedvolume.Delete}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1000, 2000, 2500} {
		r, err := v.RemoveDirectory(t.Context(), s, "a", "", "")
		if err != nil || r.Removed != want || r.Done != (want == 2500) {
			t.Errorf("%+v, %v", r, err)
		}
		if got := h.Directories(); len(got) != 0 {
			t.Errorf("still to be seen: %v", got)
		}
	}
	if got := h.Records(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
