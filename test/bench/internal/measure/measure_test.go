package measure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	bare   = Contender{Bare, Private}
	quarry = Contender{Quarry, Private}
)

func sample(round int, c Contender, ms float64) Sample {
	return Sample{Contender: c, Operation: "create", Round: round, Milliseconds: ms}
}

func TestRatio_comparesWithinARound(t *testing.T) {
	// The machine is ten times slower in the second round; the ratio is the same.
	samples := []Sample{
		sample(0, bare, 10), sample(0, quarry, 11),
		sample(1, bare, 100), sample(1, quarry, 110),
		sample(2, quarry, 500), // the yardstick is missing
		{Contender: quarry, Operation: "delete", Round: 0, Milliseconds: 1},
	}
	got := Ratio(samples, "create", quarry, bare)
	if diff := cmp.Diff(Spread{Low: 1.1, Median: 1.1, High: 1.1, From: 1.1, To: 1.1, Count: 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Added(samples, "create", quarry, bare); got.From != 1 || got.Median != 5.5 || got.To != 10 || got.Count != 2 {
		t.Errorf("added: %+v", got)
	}
	if got := Ratio(samples, "resize", quarry, bare); got.Count != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestNewSpread(t *testing.T) {
	for name, tt := range map[string]struct {
		values []float64
		want   Spread
	}{
		"nothing":        {nil, Spread{}},
		"one value":      {[]float64{3}, Spread{3, 3, 3, 3, 3, 1}},
		"in any order":   {[]float64{5, 1, 3, 2, 4}, Spread{2, 3, 4, 1, 5, 5}},
		"between values": {[]float64{1, 2}, Spread{1.25, 1.5, 1.75, 1, 2, 2}},
	} {
		if diff := cmp.Diff(tt.want, NewSpread(tt.values)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNewSpread_interval: the ranks are those of the tables for the median of a hundred values.
func TestNewSpread_interval(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(100-i))
	}
	if got := NewSpread(values); got.From != 40 || got.To != 61 || got.Median != 50.5 {
		t.Errorf("%+v", got)
	}
}

func TestReport_addKeepsRoundsApart(t *testing.T) {
	r := Report{}
	r.Add(Report{Machine: "first", Samples: []Sample{sample(0, bare, 10), sample(1, bare, 20)}})
	r.Add(Report{Machine: "second", Samples: []Sample{sample(0, bare, 30)}, Claims: []string{"one"}})
	want := Report{Machine: "first", Claims: []string{"one"}, Samples: []Sample{sample(0, bare, 10), sample(1, bare, 20), sample(2, bare, 30)}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadClaims(t *testing.T) {
	got, err := ReadClaims(strings.NewReader("=== RUN\n    a_test.go:64: HundredClaims: last Bound after 3.0 s\n    a_test.go:93: HundredClaims: all deleted after 2.0 s\nPASS\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"last Bound after 3.0 s", "all deleted after 2.0 s"}, got.Claims); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := ReadClaims(strings.NewReader("FAIL\n")); err == nil {
		t.Error("output without figures is accepted")
	}
}
