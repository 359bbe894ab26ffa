package volume

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

func TestCheckNames(t *testing.T) {
	for _, name := range []string{"v", "pvc-1", "a.b+c_d", "_x", strings.Repeat("x", 124)} {
		if err := CheckNames("vg", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".x", "-x", "a/b", "a b", "a@b", "a\n", "é", "snapshot1", "pvmove0", "x_tdata", "x_rimage_0",
		strings.Repeat("x", 125), strings.Repeat("-x", 42) + "x",
	} {
		if err := CheckNames("vg", name); !errors.Is(err, plan.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, group := range []string{"", "-", "..", "a/b", strings.Repeat("x", 128)} {
		if err := CheckNames(group, "v"); !errors.Is(err, plan.ErrInvalid) {
			t.Errorf("group %q: %v", group, err)
		}
	}
}

// TestOtherIDs: only names that ours can have count, tails have no id of their own, and whatever differs from the names of now is told.
func TestOtherIDs(t *testing.T) {
	const pvc, snap = "pvc-00000000-0000-0000-0000-000000000001", "snap-00000000-0000-0000-0000-000000000002"
	g := plan.Group{Name: "vg", LogicalVolumes: []plan.Volume{
		{Name: "home"},
		{Name: pvc, ID: "n1/vg/" + pvc},
		{Name: snap, ID: "n0/before/" + snap, Removing: true},
		{Name: "vol-x00000000000000000003", ID: "n1/vg/" + pvc},
		{Name: "pvc-00000000-0000-0000-0000-000000000004", ID: "no handle", Removing: true},
		{Name: "pvc-00000000-0000-0000-0000-000000000000"},
		{Name: "pvc-00000000-0000-0000-0000-000000000005", TailOf: "n1/vg/" + pvc, Removing: true},
	}}
	want := map[string]string{
		snap: "n0/before/" + snap, "vol-x00000000000000000003": "n1/vg/" + pvc,
		"pvc-00000000-0000-0000-0000-000000000004": "no handle", "pvc-00000000-0000-0000-0000-000000000000": "",
	}
	if got := OtherIDs("n1", g); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Removing(g); !slices.Equal(got, []string{"pvc-00000000-0000-0000-0000-000000000004", snap}) {
		t.Errorf("removing %v", got)
	}
}
