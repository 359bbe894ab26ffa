// Package turn chooses, of cases that real kernels take minutes for, those whose turn it is. The number of a run is in QUARRY_TEST_TURN: test/all takes it from
// the commit. Without it nothing is left out.
package turn

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"testing"
)

// Variable holds the number of the run.
const Variable = "QUARRY_TEST_TURN"

// number returns the number of the run, and false without one.
func number(t testing.TB) (n uint64, given bool) {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	return n, true
}

// Share skips a case unless it is its turn: the case with this index runs in one of so many runs, and as many runs in a row try all of them.
func Share(t testing.TB, index, of int) {
	t.Helper()
	if n, given := number(t); given && (n+uint64(index))%uint64(of) != 0 {
		t.Skipf("real kernels take minutes for all cases: this one has one turn of %d, and %s is %d; without it all run", of, Variable, n)
	}
}

// Instants chooses at which instants of a call a test lets something die: at first, first+step and so on, counted from zero. That is every instant, or with a
// number of the run one of so many. Which one is up to the name of the test, too: were it the number alone, a case that Share leaves out in some turns would
// never be tried at the instants of those.
func Instants(t testing.TB, of int) (first, step int) {
	t.Helper()
	n, given := number(t)
	if !given {
		return 0, 1
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, n, t.Name())
	first = int(hash.Sum32() % uint32(of))
	t.Logf("%s=%d: something dies at one instant of %d, first at number %d.", Variable, n, of, first)
	return first, of
}
