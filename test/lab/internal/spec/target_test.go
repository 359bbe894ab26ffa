package spec

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// counted gives serials that count.
func counted() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("serial%d", n)
	}
}

func TestStorage_WithTarget(t *testing.T) {
	const mib = 1 << 20
	on, chap, mutual := true, &Credentials{"joe", "in"}, &Credentials{"nas", "out"}
	full := TargetWish{Portals: 2, LUNs: 2, Bytes: 64 * mib, CHAP: chap, Mutual: mutual, NoReservations: &on}
	luns := []LUN{{Serial: "serial2", Bytes: 64 * mib}, {Serial: "serial3", Bytes: 64 * mib}, {Serial: "serial4", Bytes: 64 * mib}}
	s, serial := NewStorage(384*mib, 4<<30), counted()
	first := s
	for _, step := range []struct {
		about, name string
		wish        TargetWish
		want        Target
	}{
		{"defaults", "one", TargetWish{}, Target{Name: "one", Portals: 1, LUNs: []LUN{{Serial: "serial1", Bytes: DefaultLUNBytes}}}},
		{"everything", "two", full, Target{
			Name: "two", Slot: 1, Portals: 2, CHAP: chap, Mutual: mutual, NoReservations: true, LUNs: luns[:2],
		}},
		{"one more LUN, and all else stays", "two", TargetWish{LUNs: 3}, Target{
			Name: "two", Slot: 1, Portals: 2, CHAP: chap, Mutual: mutual, NoReservations: true, LUNs: luns,
		}},
		{"no CHAP and one path", "two", TargetWish{CHAP: &Credentials{}, Mutual: &Credentials{}, Portals: 1}, Target{
			Name: "two", Slot: 1, Portals: 1, NoReservations: true, LUNs: luns,
		}},
	} {
		before := s
		var err error
		if s, err = s.WithTarget(step.name, step.wish, serial); err != nil {
			t.Fatalf("%s: %v", step.about, err)
		}
		got, err := s.Target(step.name)
		if diff := cmp.Diff(step.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", step.about, err, diff)
		}
		if had, err := before.Target(step.name); err == nil && cmp.Equal(had, got) {
			t.Errorf("%s: the value of before was changed", step.about)
		}
	}
	if len(first.Targets) != 0 {
		t.Errorf("the first value has %+v", first.Targets)
	}
}

func TestStorage_WithTarget_refuses(t *testing.T) {
	s, err := NewStorage(384<<20, 4<<30).WithTarget("one", TargetWish{LUNs: 2, Bytes: 1 << 30}, counted())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		target string
		wish   TargetWish
	}{
		"no name":                   {"", TargetWish{}},
		"name that is a path":       {"../a", TargetWish{}},
		"name with a colon":         {"a:b", TargetWish{}},
		"three portals":             {"two", TargetWish{Portals: 3}},
		"a password of nothing":     {"two", TargetWish{CHAP: &Credentials{User: "joe"}}},
		"a password with a space":   {"two", TargetWish{CHAP: &Credentials{"joe", "a b"}}},
		"a password of two lines":   {"two", TargetWish{CHAP: &Credentials{"joe", "a\nb"}}},
		"mutual CHAP without CHAP":  {"two", TargetWish{Mutual: &Credentials{"joe", "a"}}},
		"fewer LUNs than there are": {"one", TargetWish{LUNs: 1}},
		"LUNs of another size":      {"one", TargetWish{Bytes: 2 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := s.WithTarget(tt.target, tt.wish, counted()); err == nil || !reflect.DeepEqual(got, s) {
				t.Errorf("it is %+v, %v", got.Targets, err)
			}
		})
	}
}

// twoTargets gives a storage node with two targets of two paths and two LUNs.
func twoTargets(t *testing.T, serial func() string) Storage {
	t.Helper()
	s := NewStorage(384<<20, 4<<30)
	for _, name := range []string{"one", "two"} {
		var err error
		if s, err = s.WithTarget(name, TargetWish{Portals: 2, LUNs: 2, Bytes: 1}, serial); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range s.LUNs() {
		s = s.WithDevice(l.Serial, fmt.Sprintf("/dev/d%d", i))
	}
	return s
}

func TestStorage_changesOfTargets(t *testing.T) {
	serial := counted()
	first := twoTargets(t, serial)
	kept := first.LUNs()
	s := first
	for _, change := range []func() (Storage, error){
		func() (Storage, error) { return s.WithStopped("two", true) },
		func() (Storage, error) { return s.WithCut("two", 2, true) },
		func() (Storage, error) { return s.WithCut("two", 1, true) },
		func() (Storage, error) { return s.WithCut("two", 1, true) },
		func() (Storage, error) { return s.WithCut("two", 2, false) },
		func() (Storage, error) { return s.WithWiped("two", serial) },
	} {
		var err error
		if s, err = change(); err != nil {
			t.Fatal(err)
		}
	}
	want := []Target{first.Targets[0], {
		Name: "two", Slot: 1, Portals: 2, Cut: []int{1}, Stopped: true, LUNs: []LUN{{Serial: "serial5", Bytes: 1}, {Serial: "serial6", Bytes: 1}},
	}}
	if diff := cmp.Diff(want, s.Targets); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(kept, first.LUNs()); diff != "" || first.Targets[1].Stopped {
		t.Errorf("the value of before was changed (-was +is):\n%s", diff)
	}
}

// A place that is given free is taken again, and the others keep theirs.
func TestStorage_WithoutTarget(t *testing.T) {
	s, err := twoTargets(t, counted()).WithoutTarget("one")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.WithTarget("three", TargetWish{}, counted()); err != nil || s.Targets[0].Slot != 1 || s.Targets[1].Slot != 0 {
		t.Errorf("targets are %+v, %v", s.Targets, err)
	}
}

func TestStorage_refusesWhatIsNotThere(t *testing.T) {
	s := twoTargets(t, counted())
	for name, err := range map[string]error{
		"remove": second(s.WithoutTarget("x")), "stop": second(s.WithStopped("x", true)), "wipe": second(s.WithWiped("x", counted())),
		"cut": second(s.WithCut("x", 1, true)), "cut a third path": second(s.WithCut("two", 3, true)), "cut no path": second(s.WithCut("two", 0, true)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second(_ Storage, err error) error { return err }

func TestTarget_everyAddressIsValidAndUnique(t *testing.T) {
	seen := map[string]bool{ControlPlane: true, NodeIP(StorageIndex): true}
	for i := 1; i <= maxNodes; i++ {
		seen[NodeIP(i)] = true
	}
	s := NewStorage(384<<20, 4<<30)
	var err error
	for i := range MaxTargets {
		if s, err = s.WithTarget(fmt.Sprintf("t%d", i), TargetWish{Portals: MaxPortals}, counted()); err != nil {
			t.Fatal(err)
		}
		for _, a := range s.Targets[i].Addresses() {
			if parsed, err := netip.ParseAddr(a); err != nil || seen[a] || strings.HasSuffix(a, ".255") || !netip.MustParsePrefix("10.99.0.0/24").Contains(parsed) {
				t.Errorf("target %d has the address %s", i, a)
			}
			seen[a] = true
		}
	}
	if _, err := s.WithTarget("more", TargetWish{}, counted()); err == nil || !strings.Contains(err.Error(), "address plan") {
		t.Errorf("a target without addresses: %v", err)
	}
	if slices.Contains(s.Targets[0].Addresses(), s.Targets[1].Addresses()[0]) {
		t.Error("two targets have one address")
	}
}
