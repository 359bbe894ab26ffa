package turn

import (
	"fmt"
	"strconv"
	"testing"
)

// ran reports whether a case runs.
func ran(t *testing.T, index, of int) (yes bool) {
	t.Helper()
	t.Run(fmt.Sprint(index), func(t *testing.T) {
		Share(t, index, of)
		yes = true
	})
	return yes
}

func TestShare(t *testing.T) {
	const of, cases = 3, 10
	runs := [cases]int{}
	for n := range of {
		t.Setenv(Variable, strconv.Itoa(1000+n))
		inThis := 0
		for i := range cases {
			if ran(t, i, of) {
				runs[i]++
				inThis++
			}
		}
		if inThis < cases/of || inThis > cases/of+1 {
			t.Errorf("turn %d runs %d of %d cases", n, inThis, cases)
		}
	}
	for i, count := range runs {
		if count != 1 {
			t.Errorf("in %d turns case %d runs %d times", of, i, count)
		}
	}
	t.Setenv(Variable, "")
	for i := range cases {
		if !ran(t, i, of) {
			t.Errorf("without a turn case %d does not run", i)
		}
	}
}

// TestInstants: in the turns of a case, which are those with an even number here, each instant has its turn.
func TestInstants(t *testing.T) {
	const of = 6
	seen := map[int]bool{}
	for n := range 100 {
		t.Setenv(Variable, strconv.Itoa(2*n))
		first, step := Instants(t, of)
		if first < 0 || first >= of || step != of {
			t.Fatalf("turn %d: first %d, step %d", n, first, step)
		}
		seen[first] = true
	}
	if len(seen) != of {
		t.Errorf("instants %v of %d are tried", seen, of)
	}
	t.Setenv(Variable, "")
	if first, step := Instants(t, of); first != 0 || step != 1 {
		t.Errorf("without a turn first %d, step %d", first, step)
	}
}
