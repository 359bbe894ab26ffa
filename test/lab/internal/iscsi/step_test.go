package iscsi

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/test/lab/internal/spec"
)

var (
	one = spec.Target{
		Name: "one", Portals: 2, CHAP: &spec.Credentials{User: "joe", Password: "in"}, Mutual: &spec.Credentials{User: "nas", Password: "out"},
		LUNs: []spec.LUN{{Serial: "aa", Device: "/dev/ubdc"}, {Serial: "bb", Device: "/dev/ubdd"}},
	}
	two = spec.Target{
		Name: "two", Slot: 1, Portals: 1, Stopped: true, NoReservations: true, LUNs: []spec.LUN{{Serial: "cc", Device: "/dev/ubde"}},
	}
	initiators = []string{spec.IQN("n1"), spec.IQN("n2")}
)

var update = flag.Bool("update", false, "write the golden files again")

// TestServed shows all that is written for two targets.
func TestServed(t *testing.T) {
	for name, tt := range map[string]struct {
		target spec.Target
		golden string
	}{"one": {one, "testdata/one.golden"}, "two": {two, "testdata/two.golden"}} {
		t.Run(name, func(t *testing.T) {
			var steps []step
			for _, l := range tt.target.LUNs {
				steps = append(steps, backstore(l)...)
			}
			var text strings.Builder
			for _, s := range append(steps, served(tt.target, initiators)...) {
				fmt.Fprintln(&text, strings.TrimSpace(fmt.Sprintf("%s %s %s", s.do, s.path, s.value)))
			}
			if *update {
				must(t, os.WriteFile(tt.golden, []byte(text.String()), 0o600))
			}
			want, err := os.ReadFile(tt.golden)
			must(t, err)
			if text.String() != string(want) {
				t.Errorf("not as in %s; write it again with -update if that is meant:\n%s", tt.golden, text.String())
			}
		})
	}
}

// TestServed_order: passwords are there before they are asked for, reservations
// are allowed or not before anybody sees a disk, and the target takes sessions
// last of all.
func TestServed_order(t *testing.T) {
	steps := served(one, initiators)
	at := func(part string) int {
		i := slices.IndexFunc(steps, func(s step) bool { return strings.HasSuffix(s.path, part) })
		if i < 0 {
			t.Fatalf("no step has %s", part)
		}
		return i
	}
	for _, pair := range [][2]string{
		{"tpgt_1/auth/password", "attrib/authentication"},
		{"aa/attrib/emulate_pr", "tpgt_1/lun/lun_0/disk"},
		{"tpgt_1/lun/lun_1/disk", spec.IQN("n1") + "/lun_1/lun"},
		{"attrib/authentication", "tpgt_1/enable"},
	} {
		if at(pair[0]) >= at(pair[1]) {
			t.Errorf("%s comes after %s", pair[0], pair[1])
		}
	}
	if last := steps[len(steps)-1]; last.path != groupDir(one)+"/enable" || last.value != "1" {
		t.Errorf("the last step is %+v", last)
	}
}
