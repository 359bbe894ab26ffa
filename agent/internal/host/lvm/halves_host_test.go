//go:build hostroot

package lvm

import (
	"slices"
	"strings"
	"testing"
)

// TestHost_halves shows what LVM makes of a group that was changed on either of its disks while the other was away, and that a report tells of it in time. LVM lets
// each half go on; when both are back, it takes one of them for all there is: what was done on the other is undone. A volume that was used counts as new again.
func TestHost_halves(t *testing.T) {
	for name, c := range map[string]struct {
		// onA are changes on the first disk, after one on the second. flagged is true where LVM takes the second disk for missing then.
		onA     []string
		flagged bool
	}{
		// Both halves have the same number of changes: LVM shows nothing but a warning.
		"as often as on the other":     {[]string{"a1"}, false},
		"more often than on the other": {[]string{"a1", "a2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := realLVM(t)
			ctx, a, b := t.Context(), loop(t), loop(t)
			both := []string{a, b}
			lvm := func(devices []string, command string, args ...string) {
				t.Helper()
				_, err := l.run(ctx, devices, command, args...)
				must(t, err)
			}
			report := func(devices ...string) VG {
				t.Helper()
				vgs, _, err := l.Report(ctx, devices)
				must(t, err)
				if len(vgs) != 1 {
					t.Fatalf("%d groups", len(vgs))
				}
				return vgs[0]
			}
			isNew := func(g VG) bool {
				i := slices.IndexFunc(g.Volumes, func(v LV) bool { return v.Name == "b1" })
				return slices.Contains(g.Volumes[i].Tags, "new")
			}
			must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreatePV(ctx, b, uuidB, testSize), l.CreateVG(ctx, testGroup, []string{tag}, both))
			for name, on := range map[string]string{"a1": a, "a2": a, "b1": b} {
				lvm(both, "lvcreate", "-an", "-Zn", "-Wn", "-L", "8m", "--addtag", "new", "-n", name, testGroup, on)
			}
			if g := report(both...); g.Earlier != "" || !isNew(g) {
				t.Errorf("the whole group: %+v", g)
			}
			lvm([]string{b}, "lvchange", "--deltag", "new", testGroup+"/b1")
			if g := report(b); g.Earlier != "" || g.MissingPVs != 1 || isNew(g) {
				t.Errorf("the half that was changed: %+v", g)
			}
			if g := report(a); !strings.Contains(g.Earlier, "this node saw its change") || !isNew(g) {
				t.Errorf("the half that was away: %+v", g)
			}
			if g := report(both...); g.Earlier != "" || isNew(g) {
				t.Errorf("both halves, only one of which was changed: %+v", g)
			}
			for _, name := range c.onA {
				lvm([]string{a}, "lvremove", "-y", testGroup+"/"+name)
			}
			if g := report(both...); !isNew(g) || (g.MissingPVs > 0) != c.flagged {
				t.Errorf("LVM takes halves that parted otherwise than it did, decision 0098 has to be looked at again: %+v", g)
			}
			if c.flagged {
				must(t, l.RestorePV(ctx, testGroup, both, b))
			}
			lvm(both, "lvremove", "-y", testGroup)
			must(t, l.RemoveVG(ctx, testGroup, both))
		})
	}
}
