//go:build hostroot

package lvm

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestHost_hints: the host's own LVM, which looks only at the devices in its hints, sees the group that this one makes on another device. On these disks no rule of
// udev's has LVM look at a new physical volume, which would clear the hints a moment later.
func TestHost_hints(t *testing.T) {
	disks := strings.Split(os.Getenv("QUARRY_TEST_DISKS"), ",")
	if len(disks) < 2 {
		t.Skip("QUARRY_TEST_DISKS names no two disks to use; make conformance does")
	}
	l, _ := realLVM(t)
	ctx, first, second := t.Context(), disks[:1], disks[1:2]
	const size = 512 << 20
	blank := func() {
		for _, d := range disks[:2] {
			f, err := os.OpenFile(d, os.O_WRONLY|os.O_SYNC, 0)
			must(t, err)
			_, err = f.Write(make([]byte, 4<<20))
			must(t, err, f.Close())
		}
	}
	blank()
	t.Cleanup(blank)
	plain := func() string {
		cmd := exec.Command(DefaultBinary, "vgs", "--driverloaded", "n", "--foreign", "--noheadings", "--options", "vg_name", "--config", `devices/hints="all"`)
		cmd.Env = append(os.Environ(), "LVM_SUPPRESS_FD_WARNINGS=1")
		out, err := cmd.Output()
		must(t, err)
		return " " + strings.Join(strings.Fields(string(out)), " ") + " "
	}
	sees := func(group string, want bool) {
		t.Helper()
		if all := plain(); strings.Contains(all, " "+group+" ") != want {
			t.Errorf("the host's LVM sees%s, want %s: %v", all, group, want)
		}
	}
	must(t, l.CreatePV(ctx, first[0], uuidA, size), l.CreateVG(ctx, testGroup, []string{tag}, first))
	sees(testGroup, true)
	must(t, l.CreatePV(ctx, second[0], uuidB, size), l.CreateVG(ctx, testGroup+"2", []string{tag}, second))
	sees(testGroup+"2", true)
	must(t, l.RemoveVG(ctx, testGroup, first))
	sees(testGroup, false)
	must(t, l.RemoveVG(ctx, testGroup+"2", second))
}
