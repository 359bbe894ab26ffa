package nodestate

import (
	"errors"
	"testing"
)

func row(i int) Flags { return Of(i&8 != 0, i&4 != 0, i&2 != 0, i&1 != 0) }

func TestCompute_allRows(t *testing.T) {
	// The index of a row is the number with the bits isUp, hasData, shouldQuiesce, shouldDestroy.
	want := [16]State{
		Offline, Abandoned, Quiesced, Abandoned,
		Offline, Failed, Quiesced, Failed,
		Online, Abandoned, Quiesced, Abandoned,
		Online, Failed, Quiesced, Failed,
	}
	totals := map[State]int{}
	for i, state := range want {
		got := Compute(row(i))
		if got != state {
			t.Errorf("row %d %+v: got %s, want %s", i, row(i), got, state)
		}
		totals[got]++
	}
	for state, n := range map[State]int{Online: 2, Offline: 2, Quiesced: 4, Failed: 4, Abandoned: 4} {
		if totals[state] != n {
			t.Errorf("%d rows are %s, want %d", totals[state], state, n)
		}
	}
}

func TestFlags_readBack(t *testing.T) {
	for i := range 16 {
		f := row(i)
		if f.IsUp() != (i&8 != 0) || f.HasData() != (i&4 != 0) || f.ShouldQuiesce() != (i&2 != 0) || f.ShouldDestroy() != (i&1 != 0) {
			t.Errorf("row %d reads back as %+v", i, f)
		}
	}
}

func TestWish_latchesAndLeavesObservationsAlone(t *testing.T) {
	for i := range 16 {
		for _, quiesce := range []bool{false, true} {
			for _, destroy := range []bool{false, true} {
				f := row(i)
				got, err := f.Wish(quiesce, destroy)
				if f.ShouldDestroy() && !destroy {
					if !errors.Is(err, ErrLatched) || got != f {
						t.Errorf("%+v: shouldDestroy was taken back: %+v, %v", f, got, err)
					}
					continue
				}
				if want := Of(f.IsUp(), f.HasData(), quiesce, destroy); err != nil || got != want {
					t.Errorf("%+v: got %+v, %v; want %+v", f, got, err, want)
				}
			}
		}
	}
}

func TestObserve_leavesWishesAlone(t *testing.T) {
	for i := range 16 {
		f := row(i)
		for _, up := range []bool{false, true} {
			for _, data := range []Data{DataUnknown, DataPresent, DataAbsent} {
				want := Of(up, data != DataAbsent, f.ShouldQuiesce(), f.ShouldDestroy())
				if got := f.Observe(up, data); got != want {
					t.Errorf("%+v observed as %t, %d: got %+v, want %+v", f, up, data, got, want)
				}
			}
		}
	}
}

func TestCondemn(t *testing.T) {
	for i := range 16 {
		f := row(i)
		if got, want := f.Condemn(), Of(f.IsUp(), f.HasData(), f.ShouldQuiesce(), true); got != want {
			t.Errorf("%+v: got %+v, want %+v", f, got, want)
		}
	}
}

func TestWish_leavingQuiesced(t *testing.T) {
	for _, c := range []struct {
		flags Flags
		next  State
	}{
		{Of(false, false, true, false), Offline},
		{Of(true, false, true, false), Online},
		{Of(false, true, true, false), Offline},
		{Of(true, true, true, false), Online},
	} {
		if s := Compute(c.flags); s != Quiesced {
			t.Errorf("%+v is %s, want quiesced", c.flags, s)
		}
		next, err := c.flags.Wish(false, false)
		if err != nil || Compute(next) != c.next {
			t.Errorf("%+v leaves to %s (%v), want %s", c.flags, Compute(next), err, c.next)
		}
	}
}

func TestData_unknownCountsAsPresent(t *testing.T) {
	var zero Data
	if !zero.Counts() || !DataUnknown.Counts() || !DataPresent.Counts() || DataAbsent.Counts() {
		t.Error("only data known to be absent counts as absent")
	}
}
