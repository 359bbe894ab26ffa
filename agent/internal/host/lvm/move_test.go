package lvm

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

// TestLVM_MovePV: pvmove is always told which extents, also to finish a move: with a bare device it would begin to move all of it.
func TestLVM_MovePV(t *testing.T) {
	const free = `{"pvseg_start":"9","pvseg_size":"5","lv_name":"v"}`
	for name, c := range map[string]struct {
		segments string
		goOn     bool
		want     string
	}{
		"the first extents":           {free + `,{"pvseg_start":"2","pvseg_size":"4","lv_name":"w"}`, false, "/dev/a:2-4 /dev/b"},
		"a move that was cut off":     {free + `,{"pvseg_start":"2","pvseg_size":"4","lv_name":"[pvmove0]"}`, true, "/dev/a:2-5 /dev/b"},
		"one that is over meanwhile":  {free, true, ""},
		"of a device with no extents": {"", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			report := run.Step{Result: run.Result{Stdout: []byte(`{"report":[{"pvseg":[` + c.segments + `]}]}`)}}
			steps := []run.Step{report, {}}
			if !c.goOn {
				steps = slices.Insert(steps, 0, run.Step{})
			}
			l, fake := newLVM(t, steps...)
			must(t, l.MovePV(t.Context(), "g", []string{"/dev/a", "/dev/b"}, "/dev/a", []string{"/dev/b"}, 3, c.goOn))
			last := fake.Calls()[len(fake.Calls())-1].Args
			got := ""
			if last[0] == "pvmove" {
				got = strings.Join(last[slices.Index(last, "--interval")+2:], " ")
			}
			if got != c.want {
				t.Errorf("moves %q, want %q", got, c.want)
			}
		})
	}
}
