package writer

import (
	"cmp"
	"os"
	"strconv"
	"testing"
)

// turns is how many runs with a turn share the schedules that -schedules asks for: each takes other seeds, so that so many turns in a row take all of them.
const turns = 5

// turnOf returns which share of the model is this run's, and of how many: test/all takes the number in QUARRY_TEST_TURN from the commit. All of
// it is one share without a number, and for tests without -schedules, which are short.
func turnOf(t *testing.T) (turn, of int) {
	t.Helper()
	text := os.Getenv("QUARRY_TEST_TURN")
	if text == "" || *schedules == 0 {
		return 0, 1
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("QUARRY_TEST_TURN: %v", err)
	}
	return int(number % turns), turns
}

// seedsOf returns the first seed of this run and how many follow on it.
func seedsOf(t *testing.T, without int) (first uint64, count int) {
	t.Helper()
	turn, of := turnOf(t)
	count = cmp.Or(*schedules, without) / of
	t.Logf("share %d of %d: %d schedules", turn, of, count)
	return *firstSeed + uint64(turn*count), count
}
