//go:build hostroot

package conformance_test

import (
	"os/exec"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/dm"
)

// SuspendVolume suspends the device as LVM does: nothing is flushed, and no filesystem is frozen.
func (n *realNode) SuspendVolume(t *testing.T, group, name string) {
	t.Helper()
	n.dmsetup(t, "suspend", "--noflush", "--nolockfs", dm.Name(group, name))
}

// Suspended asks the kernel.
func (n *realNode) Suspended(t *testing.T, group, name string) bool {
	t.Helper()
	return n.dmsetup(t, "info", "-c", "--noheadings", "-o", "suspended", dm.Name(group, name)) == "Suspended"
}

func (n *realNode) dmsetup(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("/usr/sbin/dmsetup", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("dmsetup %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
