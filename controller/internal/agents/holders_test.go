package agents

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
)

func groups(owners ...string) []decide.Group {
	var out []decide.Group
	for _, o := range owners {
		out = append(out, decide.Group{Name: "g-" + o, OwnerUID: o})
	}
	return out
}

func TestHolders(t *testing.T) {
	h := newHolders()
	for _, step := range []struct {
		node   string
		groups []decide.Group
		x, y   []string
	}{
		{"n2", groups("x"), []string{"n2"}, nil},
		{"n1", groups("y", "x", "x"), []string{"n1", "n2"}, []string{"n1"}},
		{"n2", groups("x"), []string{"n1", "n2"}, []string{"n1"}},
		{"n1", groups("y"), []string{"n2"}, []string{"n1"}},
		{"n2", groups("y"), nil, []string{"n1", "n2"}},
		{"n3", nil, nil, []string{"n1", "n2"}},
		{"n1", nil, nil, []string{"n2"}},
		{"n2", nil, nil, nil},
	} {
		h.set(step.node, decide.Node{Groups: step.groups})
		if x, y := h.of("x"), h.of("y"); !slices.Equal(x, step.x) || !slices.Equal(y, step.y) {
			t.Errorf("after %s with %d groups: %v and %v, want %v and %v", step.node, len(step.groups), x, y, step.x, step.y)
		}
	}
	h.set("n4", decide.Node{OtherNodes: groups("x")})
	if x := h.of("x"); !slices.Equal(x, []string{"n4"}) {
		t.Errorf("a group of another node: %v", x)
	}
	h.set("n4", decide.Node{})
	if len(h.nodes) != 0 || len(h.owners) != 0 {
		t.Errorf("what is gone is remembered: %v, %v", h.nodes, h.owners)
	}
}

func TestPool_holdersFollowTheReports(t *testing.T) {
	a, p := connected(t)
	if err := p.EnsureVolumeGroup(context.Background(), "n1", decide.GroupRef{Name: "g", Owner: owner}, p.Node("n1").Devices[:1]); err != nil {
		t.Fatal(err)
	}
	if got := p.Holders(owner); !slices.Equal(got, []string{"n1"}) || len(p.Holders("somebody-else")) != 0 {
		t.Fatalf("what a call returned is not known at once: %v", got)
	}
	a.Kill()
	await(t, "the agent is away", func() bool { return !p.Node("n1").Up() })
	if got := p.Holders(owner); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("what was seen last is forgotten: %v", got)
	}
	p.mu.Lock()
	l := p.links["n1"]
	p.mu.Unlock()
	p.Forget("n1")
	if got := p.Holders(owner); len(got) != 0 {
		t.Errorf("a node that does not exist any more holds %v", got)
	}
	// The answer to a call that was under way comes after that.
	l.update(func(n *decide.Node) { n.Groups = groups(owner) })
	if got := p.Holders(owner); len(got) != 0 {
		t.Errorf("a late answer brings %v back", got)
	}
}

func BenchmarkHolders(b *testing.B) {
	h := newHolders()
	for i := range 5000 {
		h.set(fmt.Sprintf("n%d", i), decide.Node{Groups: groups("all", fmt.Sprintf("one-%d", i))})
	}
	for b.Loop() {
		if len(h.of("one-7")) != 1 {
			b.Fatal("not found")
		}
	}
}
