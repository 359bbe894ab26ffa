package randomtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// Variables that let a person choose: QUARRY_RANDOM=1 runs these tests, as `make random` does; QUARRY_RANDOM_SEEDS is the number of worlds of TestRandomEvents and TestRestored, QUARRY_RANDOM_EVENTS that of the
// events in each; QUARRY_RANDOM_SEED chooses a single world. QUARRY_RANDOM_TRIES bounds the search for the events that matter. With the number in
// QUARRY_TEST_TURN, which test/all takes from the commit, the worlds are others from commit to commit: four turns in a row have none in common.
const (
	variableRun    = "QUARRY_RANDOM"
	variableSeeds  = "QUARRY_RANDOM_SEEDS"
	variableTries  = "QUARRY_RANDOM_TRIES"
	variableEvents = "QUARRY_RANDOM_EVENTS"
	variableSeed   = "QUARRY_RANDOM_SEED"
	variableTurn   = "QUARRY_TEST_TURN"
)

// turns is how many turns have worlds of their own.
const turns = 4

// twoEnds is said of a seed, so that nobody takes a second run that passes for a proof.
const twoEnds = "What goroutines do at one moment is up to the scheduler, so this seed can end in another way too: repeat it some times"

// What goroutines do at one moment is up to the scheduler. It has the least choice with one thread.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// asked skips a test that nobody asked for.
func asked(t *testing.T) {
	t.Helper()
	if os.Getenv(variableRun) == "" {
		t.Skip("`make random` runs this test, and `make test` does: it takes minutes with the race detector")
	}
}

// episode is how many events happen between two times at which all faults end.
const episode = 60

// play lets events happen in a new world, and returns what was found to be wrong first, and how many events that took.
func play(t *testing.T, events []event, mutate func(*world)) (played int, found error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := newWorld(t, 3, 3, mutate)
		played, found = w.play(events)
	})
	return played, found
}

func (w *world) play(events []event) (played int, found error) {
	for i, e := range events {
		d := w.happen(e)
		w.inspect(always, whenReported)
		if d >= calm && !w.ctl.lagging {
			w.inspect(whenCalm)
			w.leftGroups()
		}
		if len(w.broken) == 0 && (i%episode == episode-1 || i == len(events)-1) {
			w.converge(rand.New(rand.NewPCG(e.seed, 2)))
		}
		w.imported = max(w.imported, w.imports())
		if len(w.broken) > 0 {
			return i + 1, errors.Join(w.broken...)
		}
	}
	return len(events), nil
}

// list writes events as they are written into a test.
func list(events []event) string {
	var out strings.Builder
	for _, e := range events {
		fmt.Fprintf(&out, "\t\t%s,\n", e)
	}
	return out.String()
}

// shrink leaves events out as long as the same check still finds something wrong, in at most that many tries.
func shrink(t *testing.T, events []event, check string, mutate func(*world), tries int) []event {
	t.Helper()
	for size := max(1, len(events)/2); tries > 0; size /= 2 {
		for at := 0; at < len(events) && tries > 0; tries-- {
			fewer := slices.Delete(slices.Clone(events), at, min(at+size, len(events)))
			if n, found := play(t, fewer, mutate); of(found, check) {
				events = fewer[:n]
			} else {
				at += size
			}
		}
		if size <= 1 {
			break
		}
	}
	return events
}

// firstCheck names the check that found the first thing wrong.
func firstCheck(err error) string {
	var v *violation
	if errors.As(err, &v) {
		return v.check
	}
	return ""
}

// random plays the events of a seed, and reports the shortest list of events that shows what is wrong.
func random(t *testing.T, seed uint64, events []event) {
	t.Helper()
	n := len(events)
	played, found := play(t, events, nil)
	if found == nil {
		return
	}
	t.Logf("seed %d, event %d of %d: %v", seed, played, n, found)
	if t.Failed() {
		return
	}
	fewer := shrink(t, events[:played], firstCheck(found), nil, number(t, variableTries, 150))
	test, _, _ := strings.Cut(t.Name(), "/")
	t.Errorf("seed %d: %v\n%s, with QUARRY_RANDOM_SEED=%d QUARRY_RANDOM_EVENTS=%d make random RUN=%s, or keep these events as a test:\n%s",
		seed, found, twoEnds, seed, n, test, list(fewer))
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

func TestRandomEvents(t *testing.T) {
	asked(t)
	worlds(t, kinds)
}

// worlds plays events of some kinds in several worlds.
func worlds(t *testing.T, of []kind) {
	t.Helper()
	n := number(t, variableEvents, 120)
	if s := number(t, variableSeed, 0); s != 0 {
		random(t, uint64(s), generateFrom(of, uint64(s), n))
		return
	}
	seeds := number(t, variableSeeds, 3)
	first := number(t, variableTurn, 0)%turns*seeds + 1
	for i := range seeds {
		seed := uint64(first + i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { random(t, seed, generateFrom(of, seed, n)) })
	}
}
