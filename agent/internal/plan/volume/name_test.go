package volume

import (
	"errors"
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
