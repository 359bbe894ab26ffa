package backend

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWorld_On: what lives on a node holds it, and so does what is attached to it. What lives on no node holds none.
func TestWorld_On(t *testing.T) {
	w := World{
		Volumes:  map[string][]Volume{"": {{Name: "a"}}, "n1": {{Name: "b"}}},
		Attached: map[string][]Volume{"n1": {{Name: "c"}}, "n2": {{Name: "a"}}},
	}
	for node, want := range map[string][]Volume{"n1": {{Name: "b"}, {Name: "c"}}, "n2": {{Name: "a"}}, "n3": nil} {
		if diff := cmp.Diff(want, w.On(node)); diff != "" {
			t.Errorf("on %s (-want +got):\n%s", node, diff)
		}
	}
	nodes := w.Held()
	slices.Sort(nodes)
	if got := slices.Compact(nodes); !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("held are %q", got)
	}
}
