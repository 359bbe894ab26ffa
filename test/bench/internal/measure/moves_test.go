package measure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadMoves(t *testing.T) {
	got, err := ReadMoves(strings.NewReader("=== RUN\n    a_test.go:30: IscsiMove: attach to Running after 3.2 s\n" +
		"    a_test.go:30: IscsiMove: move to Running after 4.0 s\n    a_test.go:30: IscsiMove: move to Running after 6.5 s\nPASS\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Move{{AttachToRunning, 3.2}, {MoveToRunning, 4}, {MoveToRunning, 6.5}}
	if diff := cmp.Diff(want, got.Moves); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s, longest := MoveSeconds(got.Moves, MoveToRunning); s.Count != 2 || s.Median != 5.25 || longest != 6.5 {
		t.Errorf("%+v, longest %v", s, longest)
	}
}

func TestReadMoves_refuses(t *testing.T) {
	for name, line := range map[string]string{
		"no figures": "FAIL", "no seconds": "IscsiMove: attach to Running after a while s", "another unit": "IscsiMove: attach to Running after 3.2 ms",
		"what nobody times": "IscsiMove: rest after 3.2 s", "less than nothing": "IscsiMove: move to Running after -1.0 s", "no time": "IscsiMove: move to Running",
	} {
		if got, err := ReadMoves(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
