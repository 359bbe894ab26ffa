package nodestate

import (
	"errors"
	"testing"
)

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
		f := Flags{IsUp: i&8 != 0, HasData: i&4 != 0, ShouldQuiesce: i&2 != 0, ShouldDestroy: i&1 != 0}
		got := Compute(f)
		if got != state {
			t.Errorf("row %d %+v: got %s, want %s", i, f, got, state)
		}
		totals[got]++
	}
	for state, n := range map[State]int{Online: 2, Offline: 2, Quiesced: 4, Failed: 4, Abandoned: 4} {
		if totals[state] != n {
			t.Errorf("%d rows are %s, want %d", totals[state], state, n)
		}
	}
}

func TestLatch(t *testing.T) {
	for _, c := range []struct {
		old, want, value bool
		err              error
	}{
		{false, false, false, nil},
		{false, true, true, nil},
		{true, true, true, nil},
		{true, false, true, ErrLatched},
	} {
		got, err := Latch(c.old, c.want)
		if got != c.value || !errors.Is(err, c.err) {
			t.Errorf("Latch(%t, %t) = %t, %v; want %t, %v", c.old, c.want, got, err, c.value, c.err)
		}
	}
}

func TestWrite(t *testing.T) {
	all := Flags{IsUp: true, HasData: true, ShouldQuiesce: true, ShouldDestroy: true}
	for name, c := range map[string]struct {
		old, want Flags
		by        Writer
		err       error
	}{
		"the operator does not write isUp":              {Flags{}, Flags{IsUp: true}, Operator, ErrNotYours},
		"the operator does not write hasData":           {all, Flags{IsUp: true, ShouldQuiesce: true, ShouldDestroy: true}, Operator, ErrNotYours},
		"the observer does not write shouldQuiesce":     {Flags{}, Flags{ShouldQuiesce: true}, Observer, ErrNotYours},
		"the operator writes shouldQuiesce":             {Flags{}, Flags{ShouldQuiesce: true}, Operator, nil},
		"the observer writes isUp and hasData":          {Flags{}, Flags{IsUp: true, HasData: true}, Observer, nil},
		"the operator writes shouldDestroy":             {Flags{}, Flags{ShouldDestroy: true}, Operator, nil},
		"the observer writes shouldDestroy":             {Flags{}, Flags{ShouldDestroy: true}, Observer, nil},
		"the operator does not take shouldDestroy back": {all, Flags{IsUp: true, HasData: true, ShouldQuiesce: true}, Operator, ErrLatched},
		"the observer does not take shouldDestroy back": {all, Flags{IsUp: true, HasData: true, ShouldQuiesce: true}, Observer, ErrLatched},
		"writing the same is accepted":                  {all, all, Operator, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Write(c.old, c.want, c.by)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			want := c.want
			if c.err != nil {
				want = c.old
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestWrite_leavingQuiesced(t *testing.T) {
	for _, row := range []struct {
		flags Flags
		next  State
	}{
		{Flags{}, Offline},
		{Flags{IsUp: true}, Online},
		{Flags{HasData: true}, Offline},
		{Flags{IsUp: true, HasData: true}, Online},
	} {
		quiesced := row.flags
		quiesced.ShouldQuiesce = true
		if s := Compute(quiesced); s != Quiesced {
			t.Errorf("%+v is %s, want quiesced", quiesced, s)
		}
		next, err := Write(quiesced, row.flags, Operator)
		if err != nil || Compute(next) != row.next {
			t.Errorf("%+v leaves to %s (%v), want %s", quiesced, Compute(next), err, row.next)
		}
	}
}

func TestCompute_quiesceDoesNotProtectFromDestroy(t *testing.T) {
	f := Flags{ShouldQuiesce: true, ShouldDestroy: true}
	if s := Compute(f); s != Abandoned {
		t.Errorf("without data: %s", s)
	}
	f.HasData = true
	if s := Compute(f); s != Failed {
		t.Errorf("with data: %s", s)
	}
}

func TestData_unknownCountsAsPresent(t *testing.T) {
	var zero Data
	if !zero.Counts() || !DataUnknown.Counts() || !DataPresent.Counts() || DataAbsent.Counts() {
		t.Error("only data known to be absent counts as absent")
	}
}
