package san

import (
	"fmt"
	"slices"
	"testing"
)

// TestSpread: the first writers of many groups are on all nodes, those of one group come in the same order each time, and a node that joins or leaves moves no other.
func TestSpread(t *testing.T) {
	first := map[string]int{}
	for i := range 300 {
		owner := fmt.Sprintf("owner-%d", i)
		all := spread(owner, []string{"n1", "n2", "n3"})
		first[all[0]]++
		if again := spread(owner, []string{"n3", "n1", "n2"}); !slices.Equal(all, again) {
			t.Errorf("%s: %q and %q", owner, all, again)
		}
		more := slices.DeleteFunc(spread(owner, []string{"n1", "n2", "n3", "n4"}), func(n string) bool { return n == "n4" })
		if !slices.Equal(all, more) {
			t.Errorf("%s: %q, with another node %q", owner, all, more)
		}
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if first[n] < 60 {
			t.Errorf("%s is the first for %d of 300 groups", n, first[n])
		}
	}
}
