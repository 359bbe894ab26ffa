//go:build hostroot

package lvm

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// halves are the two disks of a group. The volumes "a1" and "a2" are on the first, "b1" is on the second, all with the tag "new".
type halves struct {
	*testing.T
	*LVM
	a, b string
}

func newHalves(t *testing.T) halves {
	t.Helper()
	l, _ := realLVM(t)
	h := halves{T: t, LVM: l, a: loop(t), b: loop(t)}
	ctx := t.Context()
	must(t, l.CreatePV(ctx, h.a, uuidA, testSize), l.CreatePV(ctx, h.b, uuidB, testSize), l.CreateVG(ctx, testGroup, []string{tag}, []string{h.a, h.b}))
	for name, on := range map[string]string{"a1": h.a, "a2": h.a, "b1": h.b} {
		h.lvm(h.both(), "lvcreate", "-an", "-Zn", "-Wn", "-L", "8m", "--addtag", "new", "-n", name, testGroup, on)
	}
	return h
}

func (h halves) both() []string { return []string{h.a, h.b} }

func (h halves) lvm(devices []string, command string, args ...string) {
	h.Helper()
	_, err := h.run(h.Context(), devices, command, args...)
	must(h.T, err)
}

// expect reports on devices, and wants a state of before, or none, in which the volume on the second disk is new, or not.
func (h halves) expect(what string, earlier, isNew bool, devices ...string) VG {
	h.Helper()
	vgs, _, err := h.Report(h.Context(), devices)
	must(h.T, err)
	if len(vgs) != 1 {
		h.Fatalf("%s: %d groups", what, len(vgs))
	}
	i := slices.IndexFunc(vgs[0].Volumes, func(v LV) bool { return v.Name == "b1" })
	if i < 0 || slices.Contains(vgs[0].Volumes[i].Tags, "new") != isNew || strings.Contains(vgs[0].Earlier, "this node saw its change") != earlier {
		h.Errorf("%s: %+v", what, vgs[0])
	}
	return vgs[0]
}

// TestHost_halves shows what LVM makes of a group that was changed on either of its disks while the other was away, and that a report tells of it in time. LVM lets
// each half go on; when both are back, it takes one of them for all there is: what was done on the other is undone. A volume that was used counts as new again.
func TestHost_halves(t *testing.T) {
	for name, c := range map[string]struct {
		// onA are removed from the first disk, after one change on the second. flagged is true where LVM takes the second disk for missing then.
		onA     []string
		flagged bool
	}{
		// Both halves have the same number of changes: LVM shows nothing but a warning.
		"as often as on the other":     {[]string{"a1"}, false},
		"more often than on the other": {[]string{"a1", "a2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHalves(t)
			h.expect("the whole group", false, true, h.both()...)
			h.lvm([]string{h.b}, "lvchange", "--deltag", "new", testGroup+"/b1")
			h.expect("the half that was changed", false, false, h.b)
			away := h.expect("the half that was away", true, true, h.a)
			// A person may say that this is all there is.
			must(t, os.Remove(h.newest.File(away.UUID)))
			h.expect("the half that was away, and is all there is", false, true, h.a)
			h.expect("both halves, only one of which was changed", false, false, h.both()...)
			for _, name := range c.onA {
				h.lvm([]string{h.a}, "lvremove", "-y", testGroup+"/"+name)
			}
			if g := h.expect("both halves, which parted (if LVM takes them otherwise, look at decision 0098 again)", false, true, h.both()...); (g.MissingPVs > 0) != c.flagged {
				t.Errorf("a disk is flagged: %t, %+v", !c.flagged, g)
			}
			if c.flagged {
				must(t, h.RestorePV(t.Context(), testGroup, h.both(), h.b))
			}
			h.lvm(h.both(), "lvremove", "-y", testGroup)
			must(t, h.RemoveVG(t.Context(), testGroup, h.both()))
		})
	}
}
